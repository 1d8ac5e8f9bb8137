// explain-away-stats: column sums, and what follows from them.

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "kernel/gemm.hpp"
#include "kernel/tile.hpp"
#include "shared/attention_results.hpp"
#include "shared/bundles.hpp"
#include "shared/column_report.hpp"
#include "shared/stored_attention.hpp"
#include "stats/observers.hpp"
#include "tensor/error.hpp"

namespace attn::tools {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
const std::string stored = "stored";

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
  d.choices("scheme", {"unas", "dnas", "hnas", "sinkhorn", stored},
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

struct Options {
  ScoreOptions scores;
  std::vector<std::string> schemes;
  std::vector<double> hybrid;      // per head; empty where nobody needs it
  std::optional<Scheme> recorded;  // the scheme that made the stored weights
  std::optional<Index> iterations;
  std::optional<double> tolerance;
};

bool wants(const Options& options, const std::string& scheme) {
  return std::find(options.schemes.begin(), options.schemes.end(), scheme) != options.schemes.end();
}

// Whether weights can be computed: q and k, or ready-made scores.
bool has_scores(const io::InputBundle& bundle, const ScoreOptions& options) {
  return options.source == ScoreOptions::Source::scores ? bundle.has("scores")
                                                        : bundle.has("q") && bundle.has("k");
}

// A number that attn-compute has left in the bundle, and in the range in which it does.
std::optional<double> recorded_number(const io::InputBundle& bundle, const std::string& name,
                                      double low, double high) {
  const auto value = bundle.number_attribute(name);
  if (value && !(*value >= low && *value <= high)) {
    throw Error(Failure::input, fmt::format("{}: attribute {} is {}, expected a number in [{}, {}]",
                                            bundle.description(), name, *value, low, high));
  }
  return value;
}

Options resolve(const cli::Arguments& arguments, const io::InputBundle& bundle) {
  Options options;
  options.scores = resolve_score_options(arguments, &bundle);
  const bool computable = has_scores(bundle, options.scores);
  options.schemes = arguments.words_of("scheme");
  if (options.schemes.empty()) {
    const bool only_stored = !computable && bundle.has("weights");
    options.schemes =
        only_stored ? std::vector<std::string>{stored} : std::vector<std::string>{"unas", "dnas"};
  }
  // Stored weights are enough by themselves; potentials need the scores.
  if (options.schemes == std::vector<std::string>{stored} && bundle.has("weights") && !computable) {
    options.scores.source = ScoreOptions::Source::weights;
  }
  if (const auto scheme = bundle.text_attribute("attn_scheme")) {
    options.recorded = scheme_of(*scheme);
    if (!options.recorded && wants(options, stored)) {
      throw Error(Failure::input, bundle.description() + ": attribute attn_scheme is " + *scheme +
                                      ", which is not known here");
    }
  }
  if (bundle.text_attribute("attn_relative_bias")) {
    throw Error(Failure::input,
                bundle.description() + ": attribute attn_relative_bias is not known here");
  }

  options.tolerance =
      recorded_number(bundle, "attn_tolerance", std::numeric_limits<double>::min(), 1);
  const auto iterations = recorded_number(bundle, "attn_iterations", 1, 1e12);
  if (iterations) options.iterations = static_cast<Index>(*iterations);
  return options;
}

struct HeadResult {
  std::vector<std::uint8_t> masked;
  Index empty_queries = 0;
  std::vector<HeadColumns> schemes;
  std::vector<bool> converged;
};

SchemeOptions scheme_options(const Options& options, Scheme scheme, Index problem) {
  SchemeOptions made;
  made.scheme = scheme;
  made.iterations = options.iterations;
  made.tolerance = options.tolerance;
  if (!options.hybrid.empty()) made.hybrid = options.hybrid[static_cast<std::size_t>(problem)];
  return made;
}

// Rows of every scheme sum to 1, so column sums add up to the number of queries: to far more than
// rounding, unless the potentials were found for other scores.
void require_row_sums(const std::vector<double>& column_sums, const Support& support,
                      Index problem) {
  double total = 0;
  for (const double sum : column_sums) total += sum;
  const auto queries = static_cast<double>(static_cast<Index>(support.keys_of_query.size()) -
                                           support.empty_queries());
  constexpr double tolerance = 0.01;
  if (std::abs(total - queries) <= tolerance * queries) return;
  throw Error(Failure::input,
              fmt::format("the stored potentials do not belong to these scores: in problem {} the "
                          "weights of {} queries add up to {:.6g}",
                          problem, queries, total));
}

template <class T>
HeadResult compute_head(const Options& options, const std::optional<StoredAttention>& in_bundle,
                        const Head<T>& head, int threads) {
  HeadResult result;
  const Support support = head.scores().support();
  for (const Index queries : support.queries_of_key) result.masked.push_back(queries == 0 ? 1 : 0);
  result.empty_queries = support.empty_queries();
  for (const std::string& name : options.schemes) {
    ColumnSums<T> sums;
    RowEntropy<T> entropy;
    const std::vector<Observer<T>*> observers = {&sums, &entropy};
    bool converged = true;
    std::optional<Scheme> scheme = scheme_of(name);
    if (scheme) {
      const Attention attention =
          attend(head.scores(), scheme_options(options, *scheme, head.problem), observers, threads);
      converged = attention.summary.status != SolveStatus::not_converged;
    } else {
      in_bundle->show(head, observers, threads);
      if (!in_bundle->holds_weights()) require_row_sums(sums.values(), support, head.problem);
      scheme = options.recorded;
    }
    HeadColumns columns;
    columns.sums = sums.values();
    columns.entropies = entropy.values();
    double total = 0;
    for (const double value : columns.entropies) total += value;
    columns.mean_entropy =
        total / static_cast<double>(support.keys_of_query.size() -
                                    static_cast<std::size_t>(result.empty_queries));
    if (scheme) {
      const double hybrid =
          options.hybrid.empty() ? 0 : options.hybrid[static_cast<std::size_t>(head.problem)];
      columns.bound = column_sum_bound(*scheme, hybrid, support.most_keys());
    }
    result.schemes.push_back(std::move(columns));
    result.converged.push_back(converged);
  }
  return result;
}

HeadNeeds needs_of(const Options& options, const AttentionInput& input, std::size_t element_size) {
  HeadNeeds needs;
  needs.result_bytes = static_cast<std::int64_t>(options.schemes.size() + 1) *
                       (input.queries + input.keys) * static_cast<Index>(sizeof(double));
  const Partition partition =
      partition_of(Order::row_panels, input.queries, input.keys, element_size);
  needs.work_bytes = [=, sums = ColumnSums<float>::bytes(partition), &options,
                      &input](int threads) {
    std::int64_t most = 0;
    for (const std::string& name : options.schemes) {
      const Scheme scheme = scheme_of(name).value_or(Scheme::hnas);
      most = std::max(most, attend_bytes(scheme, input.queries, input.keys, element_size, threads));
    }
    return most + threads * sums;
  };
  return needs;
}

template <class T>
ColumnStatistics gather(const cli::Arguments& arguments, const Options& options,
                        const io::InputBundle& bundle, const AttentionInput& input,
                        cli::Report& report) {
  ColumnStatistics statistics;
  statistics.leading = input.leading;
  statistics.queries = input.queries;
  statistics.keys = input.keys;
  statistics.slack = bound_slack(sizeof(T));
  for (const std::string& name : options.schemes) statistics.schemes.push_back({name, {}, true});

  const MemoryPlan plan = plan_memory(input, sizeof(T), needs_of(options, input, sizeof(T)),
                                      arguments.threads, arguments.memory);
  std::optional<StoredAttention> in_bundle;
  if (wants(options, stored)) {
    in_bundle.emplace(bundle, input, options.recorded, options.hybrid, plan.dense_limit);
  }
  cli::Progress progress(arguments, "column sums", static_cast<double>(input.problems));
  const double seconds = for_each_head<T, HeadResult>(
      input, plan, progress,
      [&](const Head<T>& head, int threads) {
        return compute_head<T>(options, in_bundle, head, threads);
      },
      [&](Index, HeadResult& head) {
        statistics.masked.push_back(std::move(head.masked));
        statistics.empty_queries.push_back(head.empty_queries);
        for (std::size_t n = 0; n < statistics.schemes.size(); ++n) {
          statistics.schemes[n].heads.push_back(std::move(head.schemes[n]));
          if (!head.converged[n]) statistics.schemes[n].converged = false;
        }
      });
  report.add_compute_seconds(seconds);
  return statistics;
}

// tokens (Lk), or (B, Lk) for the outermost of the leading axes.
void read_names(const io::InputBundle& bundle, ColumnStatistics& statistics, cli::Report& report) {
  if (!bundle.has("tokens")) return;
  const io::InputDataset tokens = bundle.dataset("tokens");
  const Shape& shape = tokens.shape();
  const bool one_list = shape == Shape{statistics.keys};
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
      per_batch ? statistics.heads() / statistics.leading.front() : statistics.heads();
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

cli::Outcome conclude(const cli::Arguments& arguments, const io::InputBundle& bundle,
                      const AttentionInput& input, bool f64, const ColumnStatistics& statistics,
                      cli::Report& report) {
  SummaryOptions options;
  options.epsilons = arguments.numbers("epsilon");
  options.top = arguments.integer("top").value();
  const std::optional<Index> bins = arguments.integer("bins");
  report_score_options(input.options, input.causal, report);
  report.params()["precision"] = f64 ? "f64" : "f32";
  std::vector<std::string> names;
  for (const SchemeColumns& scheme : statistics.schemes) names.push_back(scheme.name);
  report.params()["scheme"] = names;
  report.result() = column_json(statistics, options, bins);
  const std::string energy = input.q ? energy_name(input.options.energy) : "as stored";
  report.print(fmt::format("{}: {}, {}, {}\n\n", bundle.description(),
                           times(join(input.leading, {input.queries, input.keys})), energy,
                           f64 ? "float64" : "float32"));
  report.print(column_report(statistics, options, bins));

  cli::Outcome outcome;
  for (const SchemeColumns& scheme : statistics.schemes) {
    if (!scheme.converged) {
      report.warn(scheme.name + " did not converge on every head");
      report.status("not_converged");
      outcome.status = 1;
    }
    const auto edges = common_edges(statistics, bins);
    if (summarise_scheme(statistics, scheme, -1, options, edges).holds) continue;
    report.status("no");
    outcome.status = 1;
  }
  return outcome;
}

cli::Outcome run(const cli::Arguments& arguments, cli::Report& report) {
  const io::InputBundle bundle = open_input(arguments);
  Options options = resolve(arguments, bundle);
  const AttentionInput input(bundle, options.scores, false);
  if (wants(options, "hnas") || (wants(options, stored) && options.recorded == Scheme::hnas)) {
    options.hybrid = hybrid_per_head(arguments, bundle, input, true);
  }
  for (const auto& dataset : input.datasets()) report_input(report, dataset);
  bool f64 = input.any_float64 || (wants(options, stored) && bundle.has("weights") &&
                                   bundle.dataset("weights").dtype() == DType::f64);
  if (const auto recorded = bundle.text_attribute("attn_precision")) {
    if (*recorded != "f32" && *recorded != "f64") {
      throw Error(Failure::input, bundle.description() + ": attribute attn_precision is " +
                                      *recorded + ", expected f32 or f64");
    }
    f64 = *recorded == "f64";
  }
  f64 = arguments.f64.value_or(f64);
  if (wants(options, stored) && bundle.text_attribute("attn_status") == "not_converged") {
    report.warn("the stored weights had not converged when they were made");
  }
  if (arguments.dry_run) {
    const std::size_t element = f64 ? sizeof(double) : sizeof(float);
    const MemoryPlan plan = plan_memory(input, element, needs_of(options, input, element),
                                        arguments.threads, arguments.memory);
    report.result()["shape"] = join(input.leading, {input.queries, input.keys});
    report.result()["working_bytes"] = plan.bytes;
    report.print(fmt::format("column sums of {} in {}\nworking memory  {}\n",
                             times(join(input.leading, {input.queries, input.keys})),
                             f64 ? "float64" : "float32",
                             bytes_text(static_cast<double>(plan.bytes))));
    return {};
  }
  ColumnStatistics statistics = f64 ? gather<double>(arguments, options, bundle, input, report)
                                    : gather<float>(arguments, options, bundle, input, report);
  read_names(bundle, statistics, report);
  if (arguments.output) write_bundle(arguments, bundle, statistics, report);
  return conclude(arguments, bundle, input, f64, statistics, report);
}

}  // namespace
}  // namespace attn::tools

int main(int argc, char** argv) {
  return attn::tools::tool_main(
      argc, argv, attn::tools::declare(), attn::tools::run,
      {attn::kernel::blas_description(), std::string("SIMD ") + attn::kernel::simd_description()});
}
