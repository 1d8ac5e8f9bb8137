// attn-compute: scores → potentials → output, one head after the other.

#include <optional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "attn_compute/compute_heads.hpp"
#include "attn_compute/compute_report.hpp"
#include "common/bundles.hpp"
#include "common/numeric_libraries.hpp"
#include "common/section_tool.hpp"

namespace attn::tools {
namespace {

cli::Declaration declare() {
  cli::Declaration d("attn-compute",
                     "Computes attention from queries and keys, exactly, at any length",
                     cli::Role::transform);
  d.about(
      "Reads q (..., Lq, d), k (..., Lk, d) and, where there is one, v (..., Lk, dv) from a "
      "bundle, "
      "finds the potentials of the attention weights and writes the bundle with the results added. "
      "mask (non-zero = may attend), bias (added to the scores, -inf allowed), key_length (B) "
      "(keys "
      "behind it are padding) and hybrid are used where they are there. Leading axes broadcast; q "
      "may have a multiple of k's heads. Where tensors come with attributes attn_energy, "
      "attn_scale "
      "and the like, those are the defaults; not so where an earlier run has left them.");
  d.section("Attention");
  d.choice(
      "scheme", {"unas", "dnas", "hnas", "sinkhorn", "fenchel"},
      "unas: softmax. dnas: columns normalised, then rows. hnas: u dnas + (1-u) unas. sinkhorn: "
      "dnas' two steps repeated. fenchel: softmax of alpha <q,k> + log preference.",
      "unas");
  declare_score_options(d, false);
  d.number("hybrid", "U", "u of hnas; else the dataset hybrid, a scalar or one per head.",
           {0, 1, false, false});
  d.integer("iterations", "T",
            "Of sinkhorn: exactly T, or at most T where --tolerance is given (1000).", 1,
            Index{1} << 40);
  d.number("tolerance", "E",
           "Of sinkhorn: stop when the L1 error of the column sums, relative to their total, is at "
           "most E (1e-6 in float32, 1e-10 in float64, unless --iterations is given alone).",
           {0, 1, true, false});
  std::vector<std::string> results = {"out",           "weights", "row_potential",
                                      "col_potential", "col_sum", "row_entropy"};
  results.insert(results.end(), gradient_names().begin(), gradient_names().end());
  d.choices("emit", results,
            "What to write (default: out where there is a v, and the potentials). weights takes Lq "
            "x Lk numbers. grad_... are gradients of a loss, of which dataset grad_out, shaped "
            "like out, is the gradient with respect to out; each has the shape of what it belongs "
            "to, summed over the heads that share it. grad_bias is of the dataset bias or, without "
            "one, of T5's table, which grad_rel_bias is in any case.");
  declare_sections(d);
  d.text("queries", "LIST",
         "Write out, weights and row_entropy of these queries alone, such as 0,17,100:108,-1; the "
         "weights stay normalised over all queries. Dataset queries says which they are.");
  d.example("attn-compute --scheme dnas layer3.h5 | explain-away-stats",
            "which keys does nobody attend to?");
  d.example(
      "attn-compute -i q=dump.h5:/layer3/Q -i k=dump.h5:/layer3/K \\\n"
      "      --emit col_sum -o c.h5",
      "column sums of tensors that lie elsewhere");
  d.example("attn-compute --each '/text/*/layer*' --map q=Q,k=K,v=V dump.h5 -o out.h5",
            "a model's whole dump");
  d.example("attn-compute --scheme dnas --emit out,grad_q,grad_k,grad_v layer3.h5 -o g.h5",
            "gradients, where layer3.h5 has grad_out");
  d.exit_status(1, "sinkhorn did not converge; the results are written, attn_status says so");
  return d;
}

class Compute : public SectionTool<ComputeTask> {
  using SectionTool::SectionTool;

  void report_cost(const ComputeTask& task) override {
    tools::report_cost(arguments(), task.options, task.input, task.f64, report());
  }

  void begin(Index problems) override {
    progress_.emplace(arguments(), arguments().text("scheme"), static_cast<double>(problems),
                      "heads");
  }

  void compute(const ComputeTask& task, const std::string& /*group*/,
               std::optional<io::OutputBundle> results) override {
    const Totals own =
        compute_section(arguments(), task, *std::move(results), *progress_, report());
    totals_.add(own);
    outcome_ = tools::conclude(task.options, task.input, task.f64, own, report());
  }

  cli::Outcome conclude(const GroupReport& groups) override {
    if (sections().each()) {
      const Scheme scheme = scheme_of(arguments().text("scheme")).value();
      return conclude_groups(groups, scheme, problems(), totals_, report());
    }
    report().result() = groups.last();
    return outcome_;
  }

  std::optional<cli::Progress> progress_;
  Totals totals_;
  cli::Outcome outcome_;  // of the section computed last
};

cli::Outcome run(const cli::Arguments& arguments, cli::Report& report) {
  return Compute(arguments, report).run();
}

}  // namespace
}  // namespace attn::tools

int main(int argc, char** argv) {
  return attn::tools::tool_main(argc, argv, attn::tools::declare(), attn::tools::run,
                                attn::tools::numeric_libraries());
}
