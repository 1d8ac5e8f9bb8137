#include "shared/column_statistics.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace attn::tools {

namespace {

std::vector<double> common_edges(const ColumnStatistics& statistics, std::optional<Index> bins) {
  std::vector<std::span<const double>> sets;
  for (const SchemeColumns& scheme : statistics.schemes) {
    for (const HeadColumns& head : scheme.heads) sets.emplace_back(head.sums);
  }
  return histogram_edges(sets, bins);
}

// `head` < 0: all of them.
SchemeSummaryOf summarise_scheme(const ColumnStatistics& statistics, const SchemeColumns& scheme,
                                 Index head, const SummaryOptions& options,
                                 const std::vector<double>& edges) {
  const Index first = head < 0 ? 0 : head;
  const Index last = head < 0 ? statistics.heads() : head + 1;
  SchemeSummaryOf summary;
  summary.first_head = first;
  std::vector<double> sums;
  std::vector<std::uint8_t> masked;
  sums.reserve(static_cast<std::size_t>((last - first) * statistics.keys));
  masked.reserve(sums.capacity());
  double entropy = 0;
  Index entropies = 0;
  for (Index h = first; h < last; ++h) {
    const auto at = static_cast<std::size_t>(h);
    const HeadColumns& columns = scheme.heads[at];
    const auto& closed = statistics.masked[at];
    sums.insert(sums.end(), columns.sums.begin(), columns.sums.end());
    masked.insert(masked.end(), closed.begin(), closed.end());
    const Index open_queries = statistics.queries - statistics.empty_queries[at];
    summary.empty_queries += statistics.empty_queries[at];
    if (open_queries > 0) {
      entropy += columns.mean_entropy * static_cast<double>(open_queries);
      entropies += open_queries;
    }
    if (!columns.bound) continue;
    double smallest = std::numeric_limits<double>::infinity();
    for (std::size_t j = 0; j < columns.sums.size(); ++j) {
      if (closed[j] == 0) smallest = std::min(smallest, columns.sums[j]);
    }
    if (std::isinf(smallest)) continue;
    summary.bound = std::min(summary.bound.value_or(*columns.bound), *columns.bound);
    const double margin = smallest / *columns.bound;
    summary.margin = std::min(summary.margin.value_or(margin), margin);
  }
  summary.mean_entropy = entropies > 0 ? entropy / static_cast<double>(entropies)
                                       : std::numeric_limits<double>::quiet_NaN();
  summary.holds = !summary.margin || *summary.margin >= 1 - statistics.slack;
  summary.sums = summarise(sums, masked, options);
  summary.histogram = histogram(sums, masked, edges);
  return summary;
}

}  // namespace

std::string ColumnStatistics::name_of(Index head, Index key) const {
  if (names.empty()) return "";
  return names[static_cast<std::size_t>(head / heads_per_name * keys + key)];
}

ColumnSummaries summarise_columns(const ColumnStatistics& statistics,
                                  const SummaryOptions& options) {
  ColumnSummaries summaries;
  summaries.edges = common_edges(statistics, options.bins);
  for (const SchemeColumns& scheme : statistics.schemes) {
    ColumnSummaries::OfScheme made;
    made.all = summarise_scheme(statistics, scheme, -1, options, summaries.edges);
    for (Index head = 0; head < statistics.heads(); ++head) {
      made.heads.push_back(summarise_scheme(statistics, scheme, head, options, summaries.edges));
    }
    summaries.schemes.push_back(std::move(made));
  }
  return summaries;
}

}  // namespace attn::tools
