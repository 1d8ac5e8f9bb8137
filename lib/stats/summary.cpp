#include "stats/summary.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "scheme/scheme_description.hpp"

namespace attn {
namespace {

constexpr Index usual_bins = 24;

bool is_masked(std::span<const std::uint8_t> masked, std::size_t key) {
  return !masked.empty() && masked[key] != 0;
}

/// The `count` keys whose sums come first by `before`, or their sums per query, if `queries` has
/// numbers. Equal ones are ordered by sum and position. Reads the sums once, without a second list
/// of all keys.
template <class Before>
std::vector<KeySum> first_keys(std::span<const double> sums, std::span<const Index> queries,
                               std::span<const std::uint8_t> masked, Index count,
                               const Before& before) {
  const auto rank = [&](const KeySum& key) {
    if (queries.empty()) return key.value;
    return key.value / static_cast<double>(queries[static_cast<std::size_t>(key.position)]);
  };
  const auto order = [&](const KeySum& a, const KeySum& b) {
    const double x = rank(a);
    const double y = rank(b);
    if (x != y) return before(x, y);
    if (a.value != b.value) return before(a.value, b.value);
    return a.position < b.position;
  };
  std::vector<KeySum> chosen;  // a heap with the last of them in front
  for (std::size_t j = 0; count > 0 && j < sums.size(); ++j) {
    if (is_masked(masked, j)) continue;
    const KeySum key{static_cast<Index>(j), sums[j]};
    if (chosen.size() == static_cast<std::size_t>(count)) {
      if (!order(key, chosen.front())) continue;
      std::pop_heap(chosen.begin(), chosen.end(), order);
      chosen.pop_back();
    }
    chosen.push_back(key);
    std::push_heap(chosen.begin(), chosen.end(), order);
  }
  std::sort_heap(chosen.begin(), chosen.end(), order);
  return chosen;
}

}  // namespace

double quantile(std::span<const double> sorted, double probability) {
  if (sorted.empty()) return std::numeric_limits<double>::quiet_NaN();
  const double position = probability * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(position);
  const double part = position - static_cast<double>(below);
  // Without the next value, which may be infinite.
  if (part == 0) return sorted[below];
  return sorted[below] + part * (sorted[below + 1] - sorted[below]);
}

std::vector<KeySum> lowest_keys(std::span<const double> sums, std::span<const std::uint8_t> masked,
                                Index count) {
  return first_keys(sums, {}, masked, count, std::less<>());
}

std::vector<KeySum> highest_keys(std::span<const double> sums, std::span<const std::uint8_t> masked,
                                 Index count) {
  return first_keys(sums, {}, masked, count, std::greater<>());
}

std::vector<KeySum> lowest_per_query(std::span<const double> sums, std::span<const Index> queries,
                                     std::span<const std::uint8_t> left_out, Index count) {
  return first_keys(sums, queries, left_out, count, std::less<>());
}

std::vector<KeySum> highest_per_query(std::span<const double> sums, std::span<const Index> queries,
                                      std::span<const std::uint8_t> left_out, Index count) {
  return first_keys(sums, queries, left_out, count, std::greater<>());
}

ColumnSumSummary summarise(std::span<double> sums, std::span<const std::uint8_t> masked,
                           const SummaryOptions& options) {
  ColumnSumSummary summary;
  summary.lowest = lowest_keys(sums, masked, options.top);
  summary.highest = highest_keys(sums, masked, options.top);

  const auto all = static_cast<Index>(sums.size());
  std::size_t kept = 0;
  for (std::size_t j = 0; j < sums.size(); ++j) {
    if (!is_masked(masked, j)) sums[kept++] = sums[j];
  }
  const std::span<double> sorted = sums.first(kept);
  std::sort(sorted.begin(), sorted.end());
  summary.keys = static_cast<Index>(kept);
  summary.masked_keys = all - summary.keys;
  for (const double epsilon : options.epsilons) {
    const auto below = std::lower_bound(sorted.begin(), sorted.end(), epsilon) - sorted.begin();
    const double share = static_cast<double>(below) / static_cast<double>(sorted.size());
    summary.explained_away.push_back({epsilon, below, share});
  }
  if (sorted.empty()) {
    constexpr double unknown = std::numeric_limits<double>::quiet_NaN();
    summary.min = summary.max = summary.mean = summary.median = unknown;
    return summary;
  }
  double total = 0;
  for (const double value : sorted) total += value;
  summary.min = sorted.front();
  summary.max = sorted.back();
  summary.mean = total / static_cast<double>(sorted.size());
  summary.median = quantile(sorted, 0.5);
  for (const double p : options.probabilities)
    summary.quantiles.push_back({p, quantile(sorted, p)});
  return summary;
}

std::vector<double> histogram_edges(std::span<const std::span<const double>> sums,
                                    std::optional<Index> bins) {
  double smallest = std::numeric_limits<double>::infinity();
  double largest = 0;
  for (const auto& set : sums) {
    for (const double value : set) {
      if (value <= 0) continue;
      smallest = std::min(smallest, value);
      largest = std::max(largest, value);
    }
  }
  double low = 0;
  double high = 1;
  if (largest > 0) {
    low = std::floor(std::log10(smallest));
    high = std::max(low + 1, std::ceil(std::log10(largest)));
  }
  auto decades = static_cast<Index>(high - low);
  // Bins of the width w have their edges at low + (n − ½)w. A power of ten is not among them if w
  // is a decade divided by a whole number, or an odd number of decades divided by one.
  Index count = 0;
  double width = 1;
  if (bins) {
    if (*bins == 1) return {low, high};
    decades += 1 - decades % 2;
    count = *bins;
    width = static_cast<double>(decades) / static_cast<double>(count - 1);
  } else if (decades <= usual_bins) {
    const Index per_decade = usual_bins / decades;
    count = decades * per_decade + 1;
    width = 1 / static_cast<double>(per_decade);
  } else {
    Index decades_per_bin = (decades + usual_bins - 1) / usual_bins;
    decades_per_bin += 1 - decades_per_bin % 2;
    count = (decades + decades_per_bin - 1) / decades_per_bin + 1;
    width = static_cast<double>(decades_per_bin);
  }
  std::vector<double> edges;
  for (Index n = 0; n <= count; ++n) {
    edges.push_back(low + (static_cast<double>(n) - 0.5) * width);
  }
  return edges;
}

Histogram histogram(std::span<const double> sums, std::span<const std::uint8_t> masked,
                    std::vector<double> edges) {
  Histogram result;
  result.edges = std::move(edges);
  result.counts.assign(result.edges.size() - 1, 0);
  for (std::size_t j = 0; j < sums.size(); ++j) {
    if (is_masked(masked, j)) continue;
    if (sums[j] <= 0) {
      ++result.zeros;
      continue;
    }
    const double at = std::log10(sums[j]);
    const auto above = std::upper_bound(result.edges.begin(), result.edges.end(), at);
    const auto bin = std::clamp<std::ptrdiff_t>(
        above - result.edges.begin() - 1, 0, static_cast<std::ptrdiff_t>(result.counts.size()) - 1);
    ++result.counts[static_cast<std::size_t>(bin)];
  }
  return result;
}

std::optional<double> column_sum_bound(Scheme scheme, double hybrid, Index most_keys, double sink) {
  if (most_keys == 0) return std::nullopt;
  return description_of(scheme).column_sum_bound({hybrid, most_keys, sink});
}

std::optional<double> column_sum_margin(std::span<const double> sums,
                                        std::span<const std::uint8_t> masked, double bound) {
  double smallest = std::numeric_limits<double>::infinity();
  for (std::size_t j = 0; j < sums.size(); ++j) {
    if (!is_masked(masked, j)) smallest = std::min(smallest, sums[j]);
  }
  if (std::isinf(smallest)) return std::nullopt;
  return smallest / bound;
}

HeadStatistics statistics_of_heads(std::span<double> sums, std::span<const std::uint8_t> masked,
                                   std::span<const std::optional<double>> bounds, double slack,
                                   const std::vector<double>& edges,
                                   const SummaryOptions& options) {
  HeadStatistics found;
  const std::size_t keys = bounds.empty() ? 0 : sums.size() / bounds.size();
  for (std::size_t head = 0; head < bounds.size(); ++head) {
    const std::optional<double>& bound = bounds[head];
    if (!bound) continue;
    const auto own = [&](auto all) { return all.empty() ? all : all.subspan(head * keys, keys); };
    const std::optional<double> margin = column_sum_margin(own(sums), own(masked), *bound);
    if (!margin) continue;
    found.bound = std::min(found.bound.value_or(*bound), *bound);
    found.margin = std::min(found.margin.value_or(*margin), *margin);
  }
  found.holds = !found.margin || *found.margin >= 1 - slack;
  found.histogram = histogram(sums, masked, edges);
  found.sums = summarise(sums, masked, options);
  return found;
}

double bound_slack(std::size_t element_size) {
  // exp's argument reaches −88 (−708); its rounding to the type moves the weight by as many ulps.
  return element_size == sizeof(float) ? 1e-4 : 1e-6;
}

}  // namespace attn
