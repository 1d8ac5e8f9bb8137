// attn-compute: scores → potentials → output, one head after the other.

#include <optional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "attn_compute/compute_steps.hpp"
#include "attn_compute/repeated_scheme.hpp"
#include "common/frame/section_tool.hpp"
#include "common/frame/tool.hpp"
#include "common/options/scheme_settings.hpp"
#include "common/process/numeric_libraries.hpp"
#include "common/runs/ranks.hpp"
#include "scheme/scheme_description.hpp"
#include "scheme/table.hpp"

namespace attn::tools {
namespace {

void declare_scheme(cli::Declaration& d) {
  std::string help = "Normalisation of the scores.";
  for (const SchemeDescription* scheme : schemes()) {
    help += fmt::format(" {}: {}", scheme->name(), scheme->help());
  }
  std::vector<std::string> names(scheme_names.begin(), scheme_names.end());
  for (const RepeatedScheme& scheme : repeated_schemes) {
    help += fmt::format(" {}: {}", scheme.name, scheme.help);
    names.emplace_back(scheme.name);
  }
  d.choice("scheme", names, help, "unas").synonym("softmax", "unas");
}

cli::Declaration declare() {
  cli::Declaration d("attn-compute",
                     "Computes attention without approximation, for sequences of any length",
                     cli::Role::transform);
  d.about(
      "Reads the queries q (..., Lq, d), the keys k (..., Lk, d) and, if present, the values v "
      "(..., Lk, dv) from a bundle, which is an HDF5 file of named datasets. Writes a copy of the "
      "bundle with the results added: the output of attention, if there are values, and the "
      "potentials, which are one number for each query and each key. Later tools rebuild all "
      "weights from the potentials, so the Lq x Lk weights need not be stored.");
  d.about(
      "Optional datasets: mask (a query may attend to a key where it is non-zero), bias (added to "
      "the scores; -inf forbids a pair), query_length and key_length (B) (the numbers of queries "
      "and keys in each sequence; the rest is padding), sink (H) (a logit without a value that "
      "joins each row's sum) and hybrid (see --hybrid). Leading axes, such as batch and heads, "
      "broadcast. q may have several times as many heads as k and v (grouped-query attention).");
  d.about(
      "Attributes that come with the tensors, such as attn_energy and attn_scale, replace the "
      "defaults of --energy and --scale. Attributes that an earlier run wrote only document that "
      "run.");
  d.section("Attention");
  declare_scheme(d);
  declare_score_options(d, false);
  d.number("gamma", "G",
           "With transport: divides the energy and the costs, the unit of both. For large G a "
           "key's preference spreads evenly, for small G it goes where cost minus energy is least.",
           cli::Declaration::Range::positive());
  d.number("hybrid", "U", "Share u of dnas in hnas.", {0, 1, false, false})
      .default_words(
          "the dataset hybrid, a scalar or an array of the shape (H) or (B, H) for H heads of B "
          "sequences");
  d.integer("iterations", "T",
            "Runs exactly T iterations of sinkhorn; with --tolerance, at most T. Repeats em and "
            "mean-shift T times.",
            1, Index{1} << 40)
      .default_words("sinkhorn: at most 1000");
  declare_tolerance(d);
  declare_estimates(d);
  std::vector<std::string> results = {"out",     "weights",     "row_potential", "col_potential",
                                      "col_sum", "row_entropy", "scores",        "energies",
                                      "centre",  "variance",    "prior"};
  results.insert(results.end(), gradient_names().begin(), gradient_names().end());
  d.choices(
      "emit", results,
      "Results to write. The weights of one head are Lq x Lk numbers, and so are its scores (as "
      "the softmax sees them, -inf where masked) and energies (before soft cap, biases and masks). "
      "grad_NAME is the gradient of a loss with respect to the dataset NAME, in its shape, summed "
      "over the heads that share the dataset. It requires the dataset grad_out, the gradient of "
      "the loss with respect to out, or with --join grad_joined, the gradient with respect to "
      "joined. grad_preference is the gradient with respect to the preferences as they are given, "
      "whose scale does not matter. grad_rel_bias refers to T5's table rel_bias; so does grad_bias "
      "if there is no dataset bias.");
  d.default_words("row_potential, col_potential and, if there are values, out");
  d.flag(
      "join",
      "Joins the heads as well: writes joined (..., Lq, D), the heads of each query side by side, "
      "times the dataset wo (H dv, D) and plus bo (D) if present.");
  d.text(
      "queries", "LIST",
      "Writes out, joined, weights, scores, energies and row_entropy only for these queries, "
      "such as 0,17,100:108,-1, and their indices as the dataset queries (n). The weights are the "
      "same as without --queries: dnas still normalises over all queries.");
  declare_sections(d, "heads");
  declare_ranks(d);
  declare_restart(d);
  declare_compute_datasets(d);
  d.example("attn-compute --scheme dnas layer3.h5 | explain-away-stats",
            "Find the keys that get hardly any attention.");
  d.example(
      "attn-compute -i q=dump.h5:/layer3/Q -i k=dump.h5:/layer3/K \\\n"
      "      --emit col_sum -o c.h5",
      "Column sums of tensors stored elsewhere.");
  d.example("attn-compute --each '/text/*/layer*' --map q=Q,k=K,v=V dump.h5 -o out.h5",
            "All layers of a model's dump.");
  d.example("attn-compute --scheme dnas --emit out,grad_q,grad_k,grad_v layer3.h5 -o g.h5",
            "Gradients; layer3.h5 holds grad_out.");
  d.bf16();
  d.exit_status(
      1, "sinkhorn did not converge; the results are written with attn_status not_converged");
  return d;
}

class Compute : public SectionTool<ComputeTask> {
  using SectionTool::SectionTool;

  void check(const ComputeTask& task) override {
    for (const char* const name : {"weights", "scores", "energies"}) {
      if (task.options.emits(name)) require_no_checkpoint(arguments(), name);
    }
  }

  void report_cost(const ComputeTask& task) override {
    tools::report_cost(arguments(), task.options, task.input, task.f64, report());
  }

  void begin(Index problems) override {
    progress_.emplace(arguments(), arguments().text("scheme"), static_cast<double>(problems),
                      "heads");
  }

  void compute(const ComputeTask& task, const std::string& /*group*/,
               std::optional<io::OutputBundle> results) override {
    const ComputeTotals own =
        compute_section(arguments(), task, *std::move(results), checkpoint(), *progress_, report());
    totals_.add(own.scheme);
    outcome_ = tools::conclude(task.options, task.input, task.f64, own, report());
  }

  cli::Outcome conclude(const GroupReport& groups) override {
    if (sections().several()) {
      return conclude_groups(groups, arguments().text("scheme"), problems(), totals_, report());
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

const ToolDefinition attn_compute = {declare, run, numeric_libraries};

}  // namespace attn::tools
