#include "reports/column_statistics.hpp"

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

// The number of queries that is enough for each of the heads `first` to `last`.
std::vector<Index> enough_queries(const ColumnStatistics& statistics, Index first, Index last,
                                  const ColumnSummaryOptions& options) {
  std::vector<Index> enough;
  for (Index head = first; head < last; ++head) {
    const Index own =
        statistics.queries - statistics.padded_queries[static_cast<std::size_t>(head)];
    enough.push_back(options.min_queries.value_or(usual_min_queries(own)));
  }
  return enough;
}

// Marks the keys, masked ones too, that have fewer queries than enough.
void mark_few(ColumnStatistics& statistics, const ColumnSummaryOptions& options) {
  const std::vector<Index> enough = enough_queries(statistics, 0, statistics.heads(), options);
  statistics.few.reserve(statistics.masked.size());
  for (std::size_t j = 0; j < statistics.masked.size(); ++j) {
    const Index wanted = enough[j / static_cast<std::size_t>(statistics.keys)];
    statistics.few.push_back(statistics.queries_of_key[j] < wanted ? 1 : 0);
  }
}

// The common value of numbers, if they are equal.
std::optional<Index> common(const std::vector<Index>& numbers) {
  if (numbers.empty()) return std::nullopt;
  const bool same = std::all_of(numbers.begin(), numbers.end(),
                                [&](Index number) { return number == numbers.front(); });
  return same ? std::optional(numbers.front()) : std::nullopt;
}

// The figures of heads `first` to `last` that need the column sums in their order.
SchemeSummaryOf summarise_heads(const ColumnStatistics& statistics, const SchemeColumns& scheme,
                                Index first, Index last, const ColumnSummaries& made,
                                const ColumnSummaryOptions& options) {
  SchemeSummaryOf summary;
  summary.first_head = first;
  double entropy = 0;
  for (Index head = first; head < last; ++head) {
    const auto at = static_cast<std::size_t>(head);
    const Index open_queries =
        statistics.queries - statistics.padded_queries[at] - statistics.empty_queries[at];
    summary.padded_queries += statistics.padded_queries[at];
    summary.padded_keys += statistics.padded_keys[at];
    summary.on_sink += scheme.on_sink[at];
    summary.empty_queries += statistics.empty_queries[at];
    summary.open_queries += open_queries;
    if (open_queries > 0) entropy += scheme.mean_entropies[at] * static_cast<double>(open_queries);
    add_margin(statistics, scheme, head, summary);
    summary.shares.add(attention_shares(of_heads(statistics, scheme.sums, head, head + 1),
                                        of_heads(statistics, statistics.masked, head, head + 1),
                                        options.most));
  }
  summary.shares.total += summary.on_sink;
  summary.mean_entropy = summary.open_queries > 0
                             ? entropy / static_cast<double>(summary.open_queries)
                             : std::numeric_limits<double>::quiet_NaN();
  summary.holds = !summary.margin || *summary.margin >= 1 - statistics.slack;
  const auto sums = of_heads(statistics, scheme.sums, first, last);
  const std::vector<Index> enough = enough_queries(statistics, first, last, options);
  summary.min_queries = common(enough);
  const auto queries = of_heads(statistics, statistics.queries_of_key, first, last);
  const auto few = of_heads(statistics, statistics.few, first, last);
  summary.enough = keys_with_enough(sums, queries, enough, options.sums.epsilons);
  summary.enough_lowest = lowest_per_query(sums, queries, few, options.sums.top);
  summary.enough_highest = highest_per_query(sums, queries, few, options.sums.top);
  summary.enough_histogram = histogram(sums, few, made.edges);
  summary.histogram =
      histogram(sums, of_heads(statistics, statistics.masked, first, last), made.edges);
  return summary;
}

// The summary of the column sums themselves. Padded keys do not count as masked keys.
void add_sums(std::vector<double> sums, std::span<const std::uint8_t> masked,
              const ColumnSummaryOptions& options, SchemeSummaryOf& summary) {
  summary.sums = summarise(std::move(sums), masked, options.sums);
  summary.sums.masked_keys -= summary.padded_keys;
}

bool is_concentrated(const SchemeSummaryOf& head, const ColumnSummaryOptions& options) {
  return head.enough.greatest && head.enough.greatest->value > options.concentration;
}

// The heads of one position in the last leading axis, pooled over the batch.
ColumnStatistics over_batch(const ColumnStatistics& statistics, const SchemeColumns& scheme,
                            Index position) {
  const Index count = statistics.leading.back();
  ColumnStatistics part;
  part.queries = statistics.queries;
  part.keys = statistics.keys;
  part.slack = statistics.slack;
  part.schemes.push_back({scheme.name, {}, {}, {}, {}, scheme.converged, scheme.convergence});
  const auto append = [&](const auto& from, auto& to, Index head) {
    const auto own = of_heads(statistics, from, head, head + 1);
    to.insert(to.end(), own.begin(), own.end());
  };
  for (Index head = position; head < statistics.heads(); head += count) {
    const auto at = static_cast<std::size_t>(head);
    append(statistics.queries_of_key, part.queries_of_key, head);
    append(statistics.masked, part.masked, head);
    append(statistics.few, part.few, head);
    append(scheme.sums, part.schemes.front().sums, head);
    part.empty_queries.push_back(statistics.empty_queries[at]);
    part.schemes.front().mean_entropies.push_back(scheme.mean_entropies[at]);
    part.padded_queries.push_back(statistics.padded_queries[at]);
    part.padded_keys.push_back(statistics.padded_keys[at]);
    part.schemes.front().bounds.push_back(scheme.bounds[at]);
    part.schemes.front().on_sink.push_back(scheme.on_sink[at]);
  }
  return part;
}

std::vector<SchemeSummaryOf> pool_batch(const ColumnStatistics& statistics,
                                        const SchemeColumns& scheme, const ColumnSummaries& made,
                                        const ColumnSummaryOptions& options) {
  std::vector<SchemeSummaryOf> pooled;
  if (statistics.leading.size() < 2) return pooled;
  for (Index position = 0; position < statistics.leading.back(); ++position) {
    ColumnStatistics part = over_batch(statistics, scheme, position);
    pooled.push_back(summarise_heads(part, part.schemes.front(), 0, part.heads(), made, options));
    add_sums(std::move(part.schemes.front().sums), part.masked, options, pooled.back());
  }
  return pooled;
}

std::vector<ColumnSummaries::KeySums> under_all_schemes(const ColumnStatistics& statistics,
                                                        const std::vector<KeySum>& keys) {
  std::vector<ColumnSummaries::KeySums> found;
  for (const KeySum& key : keys) {
    const auto at = static_cast<std::size_t>(key.position);
    const Index head = key.position / statistics.keys;
    const Index index = key.position % statistics.keys;
    ColumnSummaries::KeySums of_key{
        head, index, statistics.queries_of_key[at], statistics.name_of(head, index), {}};
    for (const SchemeColumns& scheme : statistics.schemes) of_key.sums.push_back(scheme.sums[at]);
    found.push_back(std::move(of_key));
  }
  return found;
}

}  // namespace

std::string ColumnStatistics::name_of(Index head, Index key) const {
  if (names.empty()) return "";
  return names[static_cast<std::size_t>(head / heads_per_name * keys + key)];
}

ColumnSummaries summarise_columns(ColumnStatistics& statistics, const ColumnSummaryOptions& options,
                                  std::vector<PooledHistogram>& pooled) {
  ColumnSummaries summaries;
  summaries.edges = common_edges(statistics, options.sums.bins);
  mark_few(statistics, options);
  const Index heads = statistics.heads();
  pooled.resize(statistics.schemes.size());
  for (std::size_t n = 0; n < statistics.schemes.size(); ++n) {
    SchemeColumns& scheme = statistics.schemes[n];
    ColumnSummaries::OfScheme made;
    made.all = summarise_heads(statistics, scheme, 0, heads, summaries, options);
    if (n == 0) {
      summaries.lowest = under_all_schemes(statistics, made.all.enough_lowest);
      summaries.highest = under_all_schemes(statistics, made.all.enough_highest);
    }
    for (Index head = 0; head < heads; ++head) {
      made.heads.push_back(summarise_heads(statistics, scheme, head, head + 1, summaries, options));
      const auto sums = of_heads(statistics, scheme.sums, head, head + 1);
      add_sums({sums.begin(), sums.end()}, of_heads(statistics, statistics.masked, head, head + 1),
               options, made.heads.back());
      if (!is_concentrated(made.heads.back(), options)) continue;
      made.heads.back().concentrated = 1;
      ++made.all.concentrated;
    }
    made.pooled = pool_batch(statistics, scheme, summaries, options);
    pooled[n].add(scheme.sums, statistics.few);
    add_sums(std::move(scheme.sums), statistics.masked, options, made.all);
    summaries.schemes.push_back(std::move(made));
  }
  return summaries;
}

}  // namespace attn::tools
