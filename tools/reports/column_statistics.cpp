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

// Whether only masked keys have too few queries, and the others have equally many: lists by sum and
// by query are then the same.
bool have_same_queries(std::span<const Index> queries, std::span<const std::uint8_t> few,
                       std::span<const std::uint8_t> masked) {
  if (!std::equal(few.begin(), few.end(), masked.begin(), masked.end())) return false;
  std::optional<Index> same;
  for (std::size_t j = 0; j < queries.size(); ++j) {
    if (masked[j] == 0 && same.value_or(queries[j]) != queries[j]) return false;
    if (masked[j] == 0) same = queries[j];
  }
  return true;
}

// The common value of numbers, if they are equal.
std::optional<Index> common(const std::vector<Index>& numbers) {
  if (numbers.empty()) return std::nullopt;
  const bool same = std::all_of(numbers.begin(), numbers.end(),
                                [&](Index number) { return number == numbers.front(); });
  return same ? std::optional(numbers.front()) : std::nullopt;
}

// The summary of heads `first` to `last`. Leaves their column sums in another order, those of the
// scheme or a copy.
SchemeSummaryOf summarise_heads(const ColumnStatistics& statistics, const SchemeColumns& scheme,
                                Index first, Index last, std::span<double> sums,
                                const ColumnSummaries& made, const ColumnSummaryOptions& options) {
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
    if (!scheme.sinks.empty()) add_head(scheme.sinks[at], summary.sinks);
    summary.empty_queries += statistics.empty_queries[at];
    summary.open_queries += open_queries;
    if (open_queries > 0) entropy += scheme.mean_entropies[at] * static_cast<double>(open_queries);
    summary.shares.add(attention_shares(of_heads(statistics, scheme.sums, head, head + 1),
                                        of_heads(statistics, statistics.masked, head, head + 1),
                                        options.most));
  }
  summary.shares.total += summary.on_sink;
  summary.mean_entropy = summary.open_queries > 0
                             ? entropy / static_cast<double>(summary.open_queries)
                             : std::numeric_limits<double>::quiet_NaN();
  const std::vector<Index> enough = enough_queries(statistics, first, last, options);
  summary.min_queries = common(enough);
  const auto queries = of_heads(statistics, statistics.queries_of_key, first, last);
  const auto few = of_heads(statistics, statistics.few, first, last);
  summary.enough = keys_with_enough(sums, queries, enough, options.sums.epsilons);
  const auto masked = of_heads(statistics, statistics.masked, first, last);
  const bool as_for_all = have_same_queries(queries, few, masked);
  if (!as_for_all) {
    summary.enough_lowest = lowest_per_query(sums, queries, few, options.sums.top);
    summary.enough_highest = highest_per_query(sums, queries, few, options.sums.top);
    summary.enough_histogram = histogram(sums, few, made.edges);
  }
  static_cast<HeadStatistics&>(summary) = statistics_of_heads(
      sums, masked,
      std::span(scheme.bounds)
          .subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(last - first)),
      statistics.slack, made.edges, options.sums);
  if (as_for_all) {
    summary.enough_lowest = summary.sums.lowest;
    summary.enough_highest = summary.sums.highest;
    summary.enough_histogram = summary.histogram;
  }
  summary.sums.masked_keys -= summary.padded_keys;
  if (statistics.packed) summary.padded_keys = summary.padded_queries = 0;
  return summary;
}

// Names the keys that the report of one head points at.
void name_keys(const ColumnStatistics& statistics, Index head, const ColumnSummaryOptions& options,
               SchemeSummaryOf& summary) {
  if (const auto& greatest = summary.enough.greatest) {
    summary.greatest_name = statistics.name_of(head, greatest->position);
  }
  const bool tail = summary.has_tail();
  const auto& explained = tail ? summary.enough.explained_away : summary.sums.explained_away;
  if (explained.empty() || explained.front().count != 1) return;
  for (const KeySum& key : tail ? summary.enough_lowest : summary.sums.lowest) {
    if (!(key.value < options.sums.epsilons.front())) continue;
    summary.only_explained = {key.position, statistics.name_of(head, key.position)};
    return;
  }
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
  part.packed = statistics.packed;
  part.slack = statistics.slack;
  part.schemes.push_back({scheme.name, {}, {}, {}, {}, {}, scheme.converged, scheme.convergence});
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
    if (!scheme.sinks.empty()) part.schemes.front().sinks.push_back(scheme.sinks[at]);
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
    SchemeColumns& own = part.schemes.front();
    pooled.push_back(summarise_heads(part, own, 0, part.heads(), own.sums, made, options));
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
  return names[static_cast<std::size_t>(problem(head) / heads_per_name * keys + key)];
}

ColumnSummaries summarise_columns(ColumnStatistics& statistics, const ColumnSummaryOptions& options,
                                  std::vector<PooledHistogram>& pooled) {
  ColumnSummaries summaries;
  summaries.edges = common_edges(statistics, options.sums.bins);
  mark_few(statistics, options);
  // Before the sums are consumed.
  const std::vector<double>& first = statistics.schemes.front().sums;
  const std::vector<Index>& queries = statistics.queries_of_key;
  const Index top = options.sums.top;
  summaries.lowest =
      under_all_schemes(statistics, lowest_per_query(first, queries, statistics.few, top));
  summaries.highest =
      under_all_schemes(statistics, highest_per_query(first, queries, statistics.few, top));
  const Index heads = statistics.heads();
  pooled.resize(statistics.schemes.size());
  for (std::size_t n = 0; n < statistics.schemes.size(); ++n) {
    SchemeColumns& scheme = statistics.schemes[n];
    ColumnSummaries::OfScheme made;
    for (Index head = 0; head < heads; ++head) {
      const auto sums = of_heads(statistics, scheme.sums, head, head + 1);
      std::vector<double> copy(sums.begin(), sums.end());
      made.heads.push_back(
          summarise_heads(statistics, scheme, head, head + 1, copy, summaries, options));
      name_keys(statistics, head, options, made.heads.back());
      made.heads.back().concentrated = is_concentrated(made.heads.back(), options) ? 1 : 0;
    }
    made.pooled = pool_batch(statistics, scheme, summaries, options);
    pooled[n].add(scheme.sums, statistics.few);
    made.all = summarise_heads(statistics, scheme, 0, heads, scheme.sums, summaries, options);
    scheme.sums = {};
    for (const SchemeSummaryOf& head : made.heads) made.all.concentrated += head.concentrated;
    summaries.schemes.push_back(std::move(made));
  }
  return summaries;
}

}  // namespace attn::tools
