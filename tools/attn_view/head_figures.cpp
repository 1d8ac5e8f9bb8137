#include "attn_view/head_figures.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

#include "attn_view/for_each_view.hpp"
#include "common/heads/own_rows.hpp"
#include "stats/attention_shares.hpp"
#include "stats/enough_queries.hpp"
#include "stats/summary.hpp"

namespace attn::tools {
namespace {

double on_sink(const Attention& attention, const SchemeOptions& options) {
  const PooledVector<double> weights = sink_weights(attention.potentials, options);
  double total = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    // Queries without an allowed key are in no share.
    if (attention.allowed.keys_of_query[i] > 0) total += weights[i];
  }
  return total;
}

void take_shares(const std::vector<double>& sums, const std::vector<Index>& queries, double sink,
                 SchemeFigures& figures) {
  std::vector<std::uint8_t> masked;
  for (const Index count : queries) masked.push_back(count == 0 ? 1 : 0);
  AttentionShares shares = attention_shares(sums, masked, {});
  shares.total += sink;
  figures.first_key_share = shares.first / shares.total;
  figures.sink_share = sink / shares.total;
}

void take_least(const std::vector<Index>& queries, Index enough, double epsilon,
                SchemeFigures& figures) {
  const EnoughQueries found = keys_with_enough(figures.col_sum, queries, {&enough, 1}, {epsilon});
  figures.share_ignored = found.explained_away.front().share;
  figures.least = found.least;
  std::vector<std::uint8_t> few;
  for (const Index count : queries) few.push_back(count < enough ? 1 : 0);
  figures.least_per_query = std::numeric_limits<double>::quiet_NaN();
  for (const KeySum& key : lowest_per_query(figures.col_sum, queries, few, 1)) {
    figures.least_per_query =
        key.value / static_cast<double>(queries[static_cast<std::size_t>(key.position)]);
  }
}

/// The queries of the longest sequence of a head.
Index most_queries(const OwnPart& part, const Packing* packing) {
  if (packing == nullptr) return part.queries();
  Index most = 0;
  for (Index s = 0; s < packing->sequences(); ++s) most = std::max(most, packing->queries_of(s));
  return most;
}

template <class T>
HeadFigures figures_of(const ViewTask& task, const FigureOptions& options, const Head<T>& head,
                       int threads) {
  const AttentionInput& input = task.input;
  const OwnPart& part = head.part;
  HeadFigures found;
  found.min_queries = options.min_queries.value_or(
      usual_min_queries(most_queries(part, input.packing(head.problem))));
  const AllowedCounts allowed = head.scores().allowed_counts();
  found.queries_of_key.assign(allowed.queries_of_key.begin(), allowed.queries_of_key.end());
  spread_rows(found.queries_of_key, part.range.col0, input.keys, 1, Index{0});
  for (std::size_t n = 0; n < view_schemes.size(); ++n) {
    SchemeFigures& figures = found.schemes[n];
    figures.col_sum.resize(static_cast<std::size_t>(input.keys));
    figures.row_entropy.resize(static_cast<std::size_t>(input.queries));
    HeadTargets<T> targets;
    targets.col_sum = figures.col_sum;
    targets.row_entropy = figures.row_entropy;
    HeadWork<T> work;
    attend_under(view_schemes[n], input, head, targets, threads, work);
    const std::vector<double>& entropies = figures.row_entropy;
    figures.entropy = std::accumulate(entropies.begin(), entropies.end(), 0.0) /
                      static_cast<double>(part.queries() - allowed.empty_queries());
    take_shares(figures.col_sum, found.queries_of_key, on_sink(work.attention, work.scheme),
                figures);
    take_least(found.queries_of_key, found.min_queries, options.epsilon, figures);
  }
  return found;
}

template <class T>
void gather_figures(const cli::Arguments& arguments, const ViewTask& task,
                    const FigureOptions& options,
                    const std::function<void(Index, const HeadFigures&)>& keep,
                    cli::Progress& progress, cli::Report& report) {
  const auto numbers = static_cast<Index>(view_schemes.size() + 1);
  const std::int64_t bytes =
      numbers * (task.input.queries + task.input.keys) * static_cast<Index>(sizeof(double));
  for_each_view<T, HeadFigures>(
      arguments, task, bytes,
      [&](const Head<T>& head, int threads) { return figures_of(task, options, head, threads); },
      keep, progress, report);
}

}  // namespace

void find_figures(const cli::Arguments& arguments, const ViewTask& task,
                  const FigureOptions& options,
                  const std::function<void(Index problem, const HeadFigures& figures)>& keep,
                  cli::Progress& progress, cli::Report& report) {
  const auto run = task.f64 ? gather_figures<double> : gather_figures<float>;
  run(arguments, task, options, keep, progress, report);
}

}  // namespace attn::tools
