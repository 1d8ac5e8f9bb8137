#include <algorithm>
#include <cmath>

#include "reports/column_statistics.hpp"

namespace attn::tools {
namespace {

// Every usual width of a bin is a whole number of decades, or 1/24, 2/24, ... of one, and its edges
// are multiples of half its width.
constexpr Index bins_per_decade = 48;
// Column sums are doubles; the least positive one is 5e-324.
constexpr Index lowest_decade = -324;
constexpr Index highest_decade = 309;

std::vector<double> fine_edges() {
  std::vector<double> edges;
  for (Index n = lowest_decade * bins_per_decade; n <= highest_decade * bins_per_decade; ++n) {
    edges.push_back(static_cast<double>(n) / static_cast<double>(bins_per_decade));
  }
  return edges;
}

}  // namespace

void PooledHistogram::add(std::span<const double> sums, std::span<const std::uint8_t> masked) {
  static const std::vector<double> edges = fine_edges();
  const Histogram found = histogram(sums, masked, edges);
  counts_.resize(found.counts.size(), 0);
  for (std::size_t bin = 0; bin < counts_.size(); ++bin) counts_[bin] += found.counts[bin];
  zeros_ += found.zeros;
}

void PooledHistogram::add(const PooledHistogram& more) {
  counts_.resize(std::max(counts_.size(), more.counts_.size()), 0);
  for (std::size_t bin = 0; bin < more.counts_.size(); ++bin) counts_[bin] += more.counts_[bin];
  zeros_ += more.zeros_;
}

std::pair<double, double> PooledHistogram::decades() const {
  const auto filled = [](Index count) { return count > 0; };
  const auto first = std::find_if(counts_.begin(), counts_.end(), filled);
  if (first == counts_.end()) return {0, 1};
  const auto last = std::find_if(counts_.rbegin(), counts_.rend(), filled).base();
  const double low = std::floor(static_cast<double>(first - counts_.begin()) / bins_per_decade);
  const double high = std::ceil(static_cast<double>(last - counts_.begin()) / bins_per_decade);
  return {low + lowest_decade, high + lowest_decade};
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
  for (std::size_t bin = 0; bin < counts_.size(); ++bin) {
    if (counts_[bin] == 0) continue;
    const double middle = static_cast<double>(lowest_decade) +
                          (static_cast<double>(bin) + 0.5) / static_cast<double>(bins_per_decade);
    const auto at = static_cast<Index>(std::floor((middle - made.edges.front()) / width));
    made.counts[static_cast<std::size_t>(
        std::clamp<Index>(at, 0, static_cast<Index>(made.counts.size()) - 1))] += counts_[bin];
  }
  return made;
}

}  // namespace attn::tools
