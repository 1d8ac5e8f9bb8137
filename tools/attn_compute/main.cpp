// attn-compute: scores → potentials → output, one head after the other.

#include <optional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "attn_compute/compute_datasets.hpp"
#include "attn_compute/compute_heads.hpp"
#include "attn_compute/compute_report.hpp"
#include "common/bundles.hpp"
#include "common/numeric_libraries.hpp"
#include "common/section_tool.hpp"
#include "scheme/scheme_description.hpp"
#include "scheme/table.hpp"

namespace attn::tools {
namespace {

void declare_scheme(cli::Declaration& d) {
  std::string help = "Normalisation of the scores.";
  for (const SchemeDescription* scheme : schemes()) {
    help += fmt::format(" {}: {}", scheme->name(), scheme->help());
  }
  d.choice("scheme", {scheme_names.begin(), scheme_names.end()}, help, "unas");
}

cli::Declaration declare() {
  cli::Declaration d("attn-compute",
                     "Computes attention from queries and keys, exactly, at any length",
                     cli::Role::transform);
  d.about(
      "Reads q (..., Lq, d), k (..., Lk, d) and optionally v (..., Lk, dv) from a bundle, computes "
      "the potentials of the attention weights and writes the bundle with the results added. "
      "Optional datasets: mask (non-zero = may attend), bias (added to the scores, -inf allowed), "
      "key_length (B) (keys at index >= key_length are padding) and hybrid. Leading axes "
      "broadcast; q may have a multiple of k's heads. Attributes attn_energy, attn_scale and the "
      "like of the input set the defaults, unless an earlier run wrote them.");
  d.section("Attention");
  declare_scheme(d);
  declare_score_options(d, false);
  d.number("hybrid", "U",
           "Share u of dnas in hnas. Default: the dataset hybrid, a scalar or one number per head.",
           {0, 1, false, false});
  d.integer("iterations", "T",
            "Iterations of sinkhorn: exactly T, or at most T if --tolerance is given (then 1000 by "
            "default).",
            1, Index{1} << 40);
  d.number(
      "tolerance", "E",
      "Stops sinkhorn when the L1 error of the column sums, relative to their total, is at most E. "
      "Default: 1e-6 in float32, 1e-10 in float64; no tolerance if only --iterations is given.",
      {0, 1, true, false});
  std::vector<std::string> results = {"out",           "weights", "row_potential",
                                      "col_potential", "col_sum", "row_entropy"};
  results.insert(results.end(), gradient_names().begin(), gradient_names().end());
  d.choices(
      "emit", results,
      "Results to write (default: out if there is a v, and the potentials). weights takes Lq x Lk "
      "numbers. grad_NAME is the gradient of a loss with respect to NAME; the dataset grad_out, "
      "shaped like out, holds the gradient with respect to out. Each gradient has the shape of its "
      "dataset and is summed over the heads that share it. grad_bias refers to the dataset bias, "
      "or to T5's table if there is no bias; grad_rel_bias always refers to T5's table.");
  d.text("queries", "LIST",
         "Writes out, weights and row_entropy only for these queries, such as 0,17,100:108,-1; "
         "weights are still normalised over all queries. The dataset queries lists the indices.");
  declare_sections(d);
  declare_compute_datasets(d);
  d.example("attn-compute --scheme dnas layer3.h5 | explain-away-stats",
            "Find the keys that no query attends to.");
  d.example(
      "attn-compute -i q=dump.h5:/layer3/Q -i k=dump.h5:/layer3/K \\\n"
      "      --emit col_sum -o c.h5",
      "Column sums of tensors stored elsewhere.");
  d.example("attn-compute --each '/text/*/layer*' --map q=Q,k=K,v=V dump.h5 -o out.h5",
            "All layers of a model's dump.");
  d.example("attn-compute --scheme dnas --emit out,grad_q,grad_k,grad_v layer3.h5 -o g.h5",
            "Gradients; layer3.h5 holds grad_out.");
  d.exit_status(
      1, "sinkhorn did not converge; the results are written with attn_status not_converged");
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
