#include <algorithm>
#include <cmath>

#include "reports/column_statistics.hpp"

namespace attn::tools {
namespace {

// Every usual width of a bin is a whole number of decades, or 1/24, 2/24, ... of one, and its edges
// are multiples of half its width.
constexpr Index bins_per_decade = 48;

double edge(Index bin) { return static_cast<double>(bin) / static_cast<double>(bins_per_decade); }

// The bin whose lower edge is the last one that is not above log10 of the sum.
Index bin_of(double sum) {
  const double at = std::log10(sum);
  const auto bin = static_cast<Index>(std::floor(at * static_cast<double>(bins_per_decade)));
  // Rounding may have moved the product across an edge.
  if (edge(bin + 1) <= at) return bin + 1;
  return edge(bin) > at ? bin - 1 : bin;
}

}  // namespace

void PooledHistogram::add(std::span<const double> sums, std::span<const std::uint8_t> masked) {
  for (std::size_t j = 0; j < sums.size(); ++j) {
    if (!masked.empty() && masked[j] != 0) continue;
    if (sums[j] <= 0) {
      ++zeros_;
    } else {
      ++counts_[bin_of(sums[j])];
    }
  }
}

void PooledHistogram::add(const PooledHistogram& more) {
  for (const auto& [bin, count] : more.counts_) counts_[bin] += count;
  zeros_ += more.zeros_;
}

std::pair<double, double> PooledHistogram::decades() const {
  if (counts_.empty()) return {0, 1};
  return {std::floor(edge(counts_.begin()->first)), std::ceil(edge(counts_.rbegin()->first + 1))};
}

Histogram PooledHistogram::between(double low, double high) const {
  // The same edges as for one section with sums in these decades.
  const std::vector<double> ends = {std::pow(10.0, low + 0.5), std::pow(10.0, high - 0.5)};
  const std::span<const double> set(ends);
  Histogram made;
  made.edges = histogram_edges(std::span(&set, 1), std::nullopt);
  made.counts.assign(made.edges.size() - 1, 0);
  made.zeros = zeros_;
  const double width =
      (made.edges.back() - made.edges.front()) / static_cast<double>(made.counts.size());
  for (const auto& [bin, count] : counts_) {
    const double middle = (static_cast<double>(bin) + 0.5) / static_cast<double>(bins_per_decade);
    const auto at = static_cast<Index>(std::floor((middle - made.edges.front()) / width));
    made.counts[static_cast<std::size_t>(
        std::clamp<Index>(at, 0, static_cast<Index>(made.counts.size()) - 1))] += count;
  }
  return made;
}

}  // namespace attn::tools
