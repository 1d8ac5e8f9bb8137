#include "explain_away_stats/column_result.hpp"

#include <algorithm>
#include <utility>

#include "common/heads/own_rows.hpp"

namespace attn::tools {
namespace {

double mean_over(const std::vector<double>& values, Index count) {
  double total = 0;
  for (const double value : values) total += value;
  return total / static_cast<double>(count);
}

}  // namespace

// Queries without an allowed key are in no share.
void take_sink(const PooledVector<double>& on_sink, const AllowedCounts& allowed,
               SchemeResult& found) {
  add_sink_entropies(on_sink, found.columns.entropies);
  for (std::size_t i = 0; i < on_sink.size(); ++i) {
    if (allowed.keys_of_query[i] > 0) found.on_sink += on_sink[i];
  }
}

void complete(const ColumnOptions& options, const AttentionInput& input, Index problem,
              const AllowedCounts& allowed, const std::optional<Scheme>& scheme,
              Index empty_queries, SchemeResult& found) {
  found.mean_entropy =
      mean_over(found.columns.entropies, input.part(problem).queries() - empty_queries);
  if (!scheme) return;
  const double hybrid = options.scheme_options(*scheme, problem).hybrid;
  found.bound = column_sum_bound(*scheme, hybrid, allowed.most_keys(), input.sink_of(problem));
}

SchemeResult result_of(const Attention& attention, const SchemeOptions& made, HeadColumns columns) {
  SchemeResult found;
  found.converged = attention.summary.status != SolveStatus::not_converged;
  found.convergence = attention.summary.convergence;
  found.columns = std::move(columns);
  take_sink(sink_weights(attention.potentials, made), attention.allowed, found);
  return found;
}

SinkFigures sink_figures(SinkFigures of_values, const AllowedCounts& allowed,
                         const std::vector<Index>& sinks, const std::vector<double>& sums) {
  SinkFigures found = of_values;
  found.keys = std::ssize(sinks);
  found.other_keys = std::ssize(allowed.queries_of_key) - found.keys -
                     std::count(allowed.queries_of_key.begin(), allowed.queries_of_key.end(), 0);
  for (const Index key : sinks) found.attention += sums[static_cast<std::size_t>(key)];
  return found;
}

PointResult point_of(const AllowedCounts& allowed) {
  PointResult at;
  for (const Index queries : allowed.queries_of_key) at.masked.push_back(queries == 0 ? 1 : 0);
  at.empty_queries = allowed.empty_queries();
  return at;
}

void spread(const AttentionInput& input, Index problem, HeadResult& result) {
  result.part = input.part(problem);
  const TileRange own = input.own_place(problem);
  spread_rows(result.queries_of_key, own.col0, input.keys, 1, 0);
  for (PointResult& point : result.points) {
    spread_rows(point.masked, own.col0, input.keys, 1, 1);
    for (SchemeResult& scheme : point.schemes) {
      spread_rows(scheme.columns.sums, own.col0, input.keys, 1, 0.0);
      spread_rows(scheme.columns.entropies, own.row0, input.queries, 1, 0.0);
    }
  }
}

}  // namespace attn::tools
