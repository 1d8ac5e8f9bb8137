// explain-away-stats: column sums, and what follows from them.

#include <limits>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "kernel/gemm.hpp"
#include "kernel/tile.hpp"
#include "shared/bundles.hpp"
#include "shared/column_gather.hpp"
#include "shared/column_report.hpp"
#include "shared/head_outputs.hpp"

namespace attn::tools {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

cli::Declaration declare() {
  cli::Declaration d("explain-away-stats", "Finds the keys that attention explains away",
                     cli::Role::report);
  d.about(
      "The column sum of key j, c_j = sum_i weight_ij, is all the attention it gets. A key is "
      "explained away when c_j < epsilon. Softmax (unas) may do that to any key; under dnas c_j is "
      "at "
      "least 1/Lk. Computed anew from q and k with the scores the bundle was made with, or taken "
      "from "
      "what it holds (stored: its weights, else its potentials).");
  d.section("Statistics");
  d.choices("scheme", {"unas", "dnas", "hnas", "sinkhorn", "fenchel", stored},
            "Normalisations to compare. Default: unas,dnas; stored where there are no q and k.");
  d.numbers("epsilon", "E", "Thresholds of explaining away.", {0, infinity, true, true}, {1e-8});
  d.number("hybrid", "U", "u of hnas. Default: the bundle's.", {0, 1, false, false});
  d.integer("bins", "N", "Bins of the histogram of log10 c_j. Default: up to 24, at round places.",
            1, 10000);
  d.integer("top", "N", "How many keys with the least and the most attention to list.", 0,
            Index{1} << 40, 10);
  d.section("Scores");
  declare_score_options(d, true);
  d.example("attn-compute --scheme dnas layer3.h5 | explain-away-stats", "unas beside dnas");
  d.example("explain-away-stats --epsilon 1e-8,1e-3 --json=stats.json layer3.h5",
            "two thresholds, and the figures for a script");
  d.exit_status(1, "a proven bound on the column sums is broken, or sinkhorn did not converge");
  return d;
}

// tokens (Lk), or (B, Lk) for the outermost of the leading axes.
void read_names(const io::InputBundle& bundle, ColumnStatistics& statistics, cli::Report& report) {
  if (!bundle.has("tokens")) return;
  const io::InputDataset tokens = bundle.dataset("tokens");
  const Shape& shape = tokens.shape();
  const bool one_list = shape == Shape{statistics.keys} || shape == Shape{1, statistics.keys};
  const bool per_batch =
      !statistics.leading.empty() && shape == Shape{statistics.leading.front(), statistics.keys};
  if (tokens.dtype() != DType::string || (!one_list && !per_batch)) {
    report.warn(tokens.address() + " is not used: it has shape " + to_string(shape) + " and type " +
                std::string(name(tokens.dtype())) + ", expected strings of " +
                to_string({statistics.keys}));
    return;
  }
  statistics.names = tokens.read_strings();
  statistics.heads_per_name =
      one_list ? statistics.heads() : statistics.heads() / statistics.leading.front();
}

void write_bundle(const cli::Arguments& arguments, const io::InputBundle& bundle,
                  const ColumnStatistics& statistics, cli::Report& report) {
  io::OutputBundle output = open_output_like(arguments, bundle, {});
  HeadOutputs outputs(output, statistics.leading, report);
  for (const SchemeColumns& scheme : statistics.schemes) {
    const std::string sums = scheme.name + "_col_sum";
    const std::string entropies = scheme.name + "_row_entropy";
    outputs.create(sums, DType::f64, {statistics.keys}, {"key"});
    outputs.create(entropies, DType::f64, {statistics.queries}, {"query"});
    for (Index head = 0; head < statistics.heads(); ++head) {
      const HeadColumns& columns = scheme.heads[static_cast<std::size_t>(head)];
      outputs.write(sums, head, {statistics.keys}, columns.sums.data());
      outputs.write(entropies, head, {statistics.queries}, columns.entropies.data());
    }
  }
  output.commit();
}

SummaryOptions summary_options(const cli::Arguments& arguments) {
  SummaryOptions options;
  options.epsilons = arguments.numbers("epsilon");
  options.top = arguments.integer("top").value();
  options.bins = arguments.integer("bins");
  return options;
}

cli::Outcome conclude(const cli::Arguments& arguments, const io::InputBundle& bundle,
                      const AttentionInput& input, const ColumnOptions& options,
                      const ColumnStatistics& statistics, cli::Report& report) {
  const SummaryOptions wanted = summary_options(arguments);
  const ColumnSummaries summaries = summarise_columns(statistics, wanted);
  report.result() = column_json(statistics, summaries);
  const std::string energy =
      input.q ? energy_name(input.options.energy_of(options.scored_schemes().front()))
              : "as stored";
  report.print(fmt::format("{}: {}, {}, {}\n\n", bundle.description(),
                           times(join(input.leading, {input.queries, input.keys})), energy,
                           options.f64 ? "float64" : "float32"));
  report.print(column_report(statistics, wanted, summaries));

  cli::Outcome outcome;
  for (std::size_t n = 0; n < statistics.schemes.size(); ++n) {
    if (!statistics.schemes[n].converged) {
      report.warn(statistics.schemes[n].name + " did not converge on every head");
      report.status("not_converged");
      outcome.status = 1;
    }
    if (summaries.schemes[n].all.holds) continue;
    report.status("no");
    outcome.status = 1;
  }
  return outcome;
}

void report_cost(const cli::Arguments& arguments, const ColumnOptions& options,
                 const io::InputBundle& bundle, const AttentionInput& input, cli::Report& report) {
  const MemoryPlan plan =
      plan_memory(input, options.f64 ? sizeof(double) : sizeof(float),
                  column_needs(options, bundle, input), arguments.threads, arguments.memory);
  const Shape shape = join(input.leading, {input.queries, input.keys});
  report.result()["shape"] = shape;
  report.result()["working_bytes"] = plan.bytes;
  report.print(fmt::format("column sums of {} in {}\nworking memory  {}\n", times(shape),
                           options.f64 ? "float64" : "float32",
                           bytes_text(static_cast<double>(plan.bytes))));
}

cli::Outcome run(const cli::Arguments& arguments, cli::Report& report) {
  const io::InputBundle bundle = open_input(arguments);
  ColumnOptions options = resolve_column_options(arguments, bundle);
  const AttentionInput input(bundle, options.scores, false, options.scored_schemes());
  complete_column_options(arguments, bundle, input, options);
  for (const auto& dataset : input.datasets()) report_input(report, dataset);
  report_score_options(input.options, input.causal, report);
  report.params()["precision"] = options.f64 ? "f64" : "f32";
  report.params()["scheme"] = options.schemes;
  if (options.wants(stored) && bundle.text_attribute("attn_status") == "not_converged") {
    report.warn("the stored weights had not converged when they were made");
  }
  if (arguments.dry_run) {
    report_cost(arguments, options, bundle, input, report);
    return {};
  }
  ColumnStatistics statistics = gather_columns(arguments, options, bundle, input, report);
  read_names(bundle, statistics, report);
  if (arguments.output) write_bundle(arguments, bundle, statistics, report);
  return conclude(arguments, bundle, input, options, statistics, report);
}

}  // namespace
}  // namespace attn::tools

int main(int argc, char** argv) {
  return attn::tools::tool_main(
      argc, argv, attn::tools::declare(), attn::tools::run,
      {attn::kernel::blas_description(), std::string("SIMD ") + attn::kernel::simd_description()});
}
