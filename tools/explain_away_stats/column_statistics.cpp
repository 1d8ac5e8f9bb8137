#include "explain_away_stats/column_statistics.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <utility>

namespace attn::tools {

namespace {

// The elements of heads `first` to `last` in a vector (heads, Lk).
template <class T>
std::span<const T> of_heads(const ColumnStatistics& statistics, const std::vector<T>& all,
                            Index first, Index last) {
  return std::span(all).subspan(static_cast<std::size_t>(first * statistics.keys),
                                static_cast<std::size_t>((last - first) * statistics.keys));
}

std::vector<double> common_edges(const ColumnStatistics& statistics, std::optional<Index> bins) {
  std::vector<std::span<const double>> sets;
  for (const SchemeColumns& scheme : statistics.schemes) sets.emplace_back(scheme.sums);
  return histogram_edges(sets, bins);
}

void add_margin(const ColumnStatistics& statistics, const SchemeColumns& scheme, Index head,
                SchemeSummaryOf& summary) {
  const std::optional<double>& bound = scheme.bounds[static_cast<std::size_t>(head)];
  if (!bound) return;
  const auto sums = of_heads(statistics, scheme.sums, head, head + 1);
  const auto masked = of_heads(statistics, statistics.masked, head, head + 1);
  const std::optional<double> margin = column_sum_margin(sums, masked, *bound);
  if (!margin) return;
  summary.bound = std::min(summary.bound.value_or(*bound), *bound);
  summary.margin = std::min(summary.margin.value_or(*margin), *margin);
}

// Everything but the summary of the column sums, for heads `first` to `last`.
SchemeSummaryOf summarise_heads(const ColumnStatistics& statistics, const SchemeColumns& scheme,
                                Index first, Index last, const std::vector<double>& edges) {
  SchemeSummaryOf summary;
  summary.first_head = first;
  double entropy = 0;
  Index entropies = 0;
  for (Index head = first; head < last; ++head) {
    const auto at = static_cast<std::size_t>(head);
    const Index open_queries = statistics.queries - statistics.empty_queries[at];
    summary.empty_queries += statistics.empty_queries[at];
    if (open_queries > 0) {
      entropy += scheme.mean_entropies[at] * static_cast<double>(open_queries);
      entropies += open_queries;
    }
    add_margin(statistics, scheme, head, summary);
  }
  summary.mean_entropy = entropies > 0 ? entropy / static_cast<double>(entropies)
                                       : std::numeric_limits<double>::quiet_NaN();
  summary.holds = !summary.margin || *summary.margin >= 1 - statistics.slack;
  summary.histogram = histogram(of_heads(statistics, scheme.sums, first, last),
                                of_heads(statistics, statistics.masked, first, last), edges);
  return summary;
}

std::vector<ColumnSummaries::KeySums> under_all_schemes(const ColumnStatistics& statistics,
                                                        const std::vector<KeySum>& keys) {
  std::vector<ColumnSummaries::KeySums> found;
  for (const KeySum& key : keys) {
    ColumnSummaries::KeySums of_key{
        key.position / statistics.keys, key.position % statistics.keys, {}};
    for (const SchemeColumns& scheme : statistics.schemes) {
      of_key.sums.push_back(scheme.sums[static_cast<std::size_t>(key.position)]);
    }
    found.push_back(std::move(of_key));
  }
  return found;
}

}  // namespace

std::string ColumnStatistics::name_of(Index head, Index key) const {
  if (names.empty()) return "";
  return names[static_cast<std::size_t>(head / heads_per_name * keys + key)];
}

ColumnSummaries summarise_columns(ColumnStatistics& statistics, const SummaryOptions& options) {
  ColumnSummaries summaries;
  summaries.edges = common_edges(statistics, options.bins);
  const std::vector<double>& first = statistics.schemes.front().sums;
  summaries.lowest =
      under_all_schemes(statistics, lowest_keys(first, statistics.masked, options.top));
  summaries.highest =
      under_all_schemes(statistics, highest_keys(first, statistics.masked, options.top));
  const Index heads = statistics.heads();
  for (SchemeColumns& scheme : statistics.schemes) {
    ColumnSummaries::OfScheme made;
    for (Index head = 0; head < heads; ++head) {
      made.heads.push_back(summarise_heads(statistics, scheme, head, head + 1, summaries.edges));
      const auto sums = of_heads(statistics, scheme.sums, head, head + 1);
      made.heads.back().sums =
          summarise({sums.begin(), sums.end()},
                    of_heads(statistics, statistics.masked, head, head + 1), options);
    }
    made.all = summarise_heads(statistics, scheme, 0, heads, summaries.edges);
    made.all.sums = summarise(std::move(scheme.sums), statistics.masked, options);
    summaries.schemes.push_back(std::move(made));
  }
  return summaries;
}

}  // namespace attn::tools
