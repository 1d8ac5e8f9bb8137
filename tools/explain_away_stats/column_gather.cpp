#include "explain_away_stats/column_gather.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "attnkit/error.hpp"
#include "explain_away_stats/stored_attention.hpp"
#include "stats/observers.hpp"
#include "tensor/error_fall.hpp"

namespace attn::tools {
namespace {

struct SchemeResult {
  HeadColumns columns;
  double mean_entropy = 0;
  std::optional<double> bound;
  bool converged = true;
  std::optional<Convergence> convergence;
};

struct HeadResult {
  std::vector<std::uint8_t> masked;
  Index empty_queries = 0;
  std::vector<SchemeResult> schemes;
};

// Far larger than any rounding, even of float16: detects potentials computed for other scores, and
// weights that are not normalised. A query may have no allowed key.
void require_row_sums(const std::vector<double>& row_sums, const StoredAttention& in_bundle,
                      Index problem) {
  if (in_bundle.has_marginals()) return;
  constexpr double tolerance = 0.01;
  for (std::size_t query = 0; query < row_sums.size(); ++query) {
    const double sum = row_sums[query];
    if (sum == 0 || std::abs(sum - 1) <= tolerance) continue;
    throw Error(
        Failure::input,
        fmt::format(
            "{}: the weights of query {} add up to {:.6g}, expected 1{}", in_bundle.place(problem),
            query, sum,
            in_bundle.holds_weights() ? "" : ": the potentials were computed for other scores"));
  }
}

// If no scores show what is masked, the column potentials do or, under a scheme that bounds them,
// column sums of 0.
void close_unattended(const std::vector<double>& column_sums,
                      const std::vector<std::uint8_t>& closed, bool bounded, HeadResult& result) {
  for (std::size_t key = 0; key < column_sums.size(); ++key) {
    const bool known = closed.empty() ? bounded : closed[key] != 0;
    if (known && column_sums[key] == 0) result.masked[key] = 1;
  }
}

void require_masked(const std::vector<double>& column_sums, const AllowedCounts& allowed,
                    const StoredAttention& in_bundle, Index problem) {
  for (std::size_t key = 0; key < column_sums.size(); ++key) {
    if (allowed.queries_of_key[key] > 0 || column_sums[key] == 0) continue;
    throw Error(Failure::input,
                fmt::format("{}: key {} has a column sum of {:.6g}, but no query may attend to it",
                            in_bundle.place(problem), key, column_sums[key]),
                "check that mask, bias and --causal match the stored weights");
  }
}

double mean_over(const std::vector<double>& values, Index count) {
  double total = 0;
  for (const double value : values) total += value;
  return total / static_cast<double>(count);
}

template <class T>
void append(const std::vector<T>& more, std::vector<T>& all) {
  all.insert(all.end(), more.begin(), more.end());
}

template <class T>
HeadResult compute_head(const ColumnOptions& options,
                        const std::optional<StoredAttention>& in_bundle,
                        const AttentionInput& input, const Head<T>& head, std::int64_t useful_bytes,
                        int threads) {
  HeadResult result;
  const AllowedCounts allowed = head.scores().allowed_counts();
  for (const Index queries : allowed.queries_of_key) result.masked.push_back(queries == 0 ? 1 : 0);
  result.empty_queries = allowed.empty_queries();
  for (const std::string& name : options.schemes) {
    ColumnSums<T> sums;
    RowEntropy<T> entropy;
    SchemeResult found;
    std::optional<Scheme> scheme = scheme_of(name);
    if (scheme) {
      SchemeOptions made = options.scheme_options(*scheme, head.problem);
      made.kept_bytes = useful_bytes;
      const Attention attention = naming_head(input, head, [&] {
        return attend<T>(head.scores(*scheme), made, {&sums, &entropy}, threads);
      });
      found.converged = attention.summary.status != SolveStatus::not_converged;
      found.convergence = attention.summary.convergence;
    } else {
      RowSums<T> row_sums;
      in_bundle->show(head, {&sums, &entropy, &row_sums}, threads);
      require_row_sums(row_sums.values(), *in_bundle, head.problem);
      require_masked(sums.values(), allowed, *in_bundle, head.problem);
      scheme = options.recorded;
      if (input.options.source == ScoreOptions::Source::weights) {
        // Nothing else shows the mask; a row of zeros can only be a query without allowed keys.
        const auto& rows = row_sums.values();
        result.empty_queries = static_cast<Index>(std::count(rows.begin(), rows.end(), 0.0));
        close_unattended(sums.values(), in_bundle->closed_keys(head.problem),
                         !is_softmax(scheme.value_or(Scheme::unas)), result);
      }
    }
    found.columns = {sums.values(), entropy.values()};
    found.mean_entropy = mean_over(found.columns.entropies, input.queries - result.empty_queries);
    if (scheme) {
      const double hybrid = options.scheme_options(*scheme, head.problem).hybrid;
      found.bound = column_sum_bound(*scheme, hybrid, allowed.most_keys());
    }
    result.schemes.push_back(std::move(found));
  }
  return result;
}

template <class T>
ColumnStatistics gather(const cli::Arguments& arguments, const ColumnOptions& options,
                        const io::InputBundle& bundle, const AttentionInput& input,
                        const ColumnSink& sink, cli::Progress& progress, cli::Report& report) {
  ColumnStatistics statistics;
  statistics.leading = input.leading;
  statistics.queries = input.queries;
  statistics.keys = input.keys;
  statistics.slack = bound_slack(sizeof(T));
  // Allocated at once: blocks allocated head by head would fragment the memory that the next head's
  // keys need.
  const auto all_keys = static_cast<std::size_t>(input.problems * input.keys);
  statistics.masked.reserve(all_keys);
  for (const std::string& name : options.schemes) {
    statistics.schemes.push_back({name, {}, {}, {}, true, {}});
    statistics.schemes.back().sums.reserve(all_keys);
  }

  const MemoryPlan plan = plan_memory(input, sizeof(T), column_needs(options, bundle, input),
                                      arguments.threads, arguments.memory);
  std::optional<StoredAttention> in_bundle;
  if (options.wants(stored)) {
    in_bundle.emplace(bundle, input, options.recorded, options.hybrid, plan.dense_limit);
  }
  const double seconds = for_each_head<T, HeadResult>(
      input, plan, progress,
      [&](const Head<T>& head) {
        warn_of_finite_masks(head.least_bias(), options.scored_schemes(), report);
      },
      [&](const Head<T>& head, int threads) {
        return compute_head<T>(options, in_bundle, input, head, plan.useful_bytes, threads);
      },
      [&](Index index, HeadResult& head) {
        append(head.masked, statistics.masked);
        statistics.empty_queries.push_back(head.empty_queries);
        for (std::size_t n = 0; n < statistics.schemes.size(); ++n) {
          SchemeColumns& scheme = statistics.schemes[n];
          const SchemeResult& found = head.schemes[n];
          sink(scheme.name, index, found.columns);
          append(found.columns.sums, scheme.sums);
          scheme.mean_entropies.push_back(found.mean_entropy);
          scheme.bounds.push_back(found.bound);
          if (!found.converged) scheme.converged = false;
          scheme.convergence = slower(scheme.convergence, found.convergence);
        }
      });
  report.add_compute_seconds(seconds);
  return statistics;
}

}  // namespace

HeadNeeds column_needs(const ColumnOptions& options, const io::InputBundle& bundle,
                       const AttentionInput& input) {
  const std::size_t element_size = options.f64 ? sizeof(double) : sizeof(float);
  const auto number = static_cast<Index>(sizeof(double));
  const auto schemes = static_cast<Index>(options.schemes.size());
  HeadNeeds needs;
  needs.result_bytes = (schemes + 1) * (input.queries + input.keys) * number;
  // The column sums are kept for the report, with a byte per key that marks masked keys.
  needs.kept_bytes = input.problems * input.keys * (schemes * number + 1);
  const Partition partition =
      partition_of(Order::row_panels, input.queries, input.keys, element_size);
  for (const std::string& name : options.schemes) {
    const std::optional<Scheme> scheme = scheme_of(name);
    if (!scheme) continue;
    needs.useful_bytes =
        std::max(needs.useful_bytes, useful_attend_bytes(options.scheme_options(*scheme, 0),
                                                         input.queries, input.keys, element_size));
  }
  needs.work_bytes = [=, sums = ColumnSums<float>::bytes(partition), &options, &bundle, &input](
                         int threads, std::int64_t dense_limit) {
    std::int64_t most = 0;
    for (const std::string& name : options.schemes) {
      const Scheme scheme = scheme_of(name).value_or(Scheme::hnas);
      most = std::max(most, attend_bytes(scheme, input.queries, input.keys, element_size, threads));
    }
    if (options.wants(stored)) {
      most += threads * StoredAttention::bytes(bundle, input, element_size, dense_limit);
    }
    return most + threads * sums;
  };
  return needs;
}

ColumnStatistics gather_columns(const cli::Arguments& arguments, const ColumnOptions& options,
                                const io::InputBundle& bundle, const AttentionInput& input,
                                const ColumnSink& sink, cli::Progress& progress,
                                cli::Report& report) {
  return options.f64 ? gather<double>(arguments, options, bundle, input, sink, progress, report)
                     : gather<float>(arguments, options, bundle, input, sink, progress, report);
}

}  // namespace attn::tools
