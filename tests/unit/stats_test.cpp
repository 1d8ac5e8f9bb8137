#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "random_problem.hpp"
#include "stats/summary.hpp"

using namespace attn;
using namespace attn::testing;

namespace {

using Masked = std::vector<std::uint8_t>;

std::vector<Index> positions(const std::vector<KeySum>& keys) {
  std::vector<Index> found;
  for (const KeySum& key : keys) found.push_back(key.position);
  return found;
}

ColumnSumSummary summary_of(std::vector<double> sums, const Masked& masked = {},
                            const SummaryOptions& options = {}) {
  return summarise(sums, masked, options);
}

std::vector<double> quantiles(const std::vector<double>& sums, std::vector<double> probabilities) {
  SummaryOptions options;
  options.probabilities = std::move(probabilities);
  std::vector<double> found;
  for (const Quantile& q : summary_of(sums, {}, options).quantiles) found.push_back(q.value);
  return found;
}

std::vector<double> edges_of(const std::vector<std::vector<double>>& sets,
                             std::optional<Index> bins) {
  const std::vector<std::span<const double>> spans(sets.begin(), sets.end());
  return histogram_edges(spans, bins);
}

// Realistic column sums: over many decades, with zeros and ties.
std::vector<double> random_sums(Random& random) {
  std::vector<double> sums(static_cast<std::size_t>(random_size(random, 1, 300)));
  const double low = std::uniform_real_distribution<double>(-300, 0)(random);
  for (double& sum : sums) {
    sum = std::pow(10, std::uniform_real_distribution<double>(low, 2)(random));
    if (chance(random, 0.1)) sum = 0;
    if (chance(random, 0.2)) sum = sums[0];
  }
  return sums;
}

}  // namespace

TEST_CASE("a summary by hand: ties, masked keys, lowest and highest") {
  SummaryOptions options;
  options.top = 3;
  options.epsilons = {0.5, 1, 3};
  //                                0  1    2  3    4  5  6
  const std::vector<double> sums = {2, 0.5, 9, 0.5, 2, 0, 4};
  const auto s = summary_of(sums, Masked{0, 0, 1, 0, 0, 255, 0}, options);
  CHECK(s.keys == 5);
  CHECK(s.masked_keys == 2);
  CHECK(s.min == 0.5);
  CHECK(s.max == 4);
  CHECK(s.mean == 1.8);
  CHECK(s.median == 2);
  CHECK(positions(s.lowest) == std::vector<Index>{1, 3, 0});   // ties by position
  CHECK(positions(s.highest) == std::vector<Index>{6, 0, 4});  // here, too
  CHECK(s.lowest[2].value == 2);
  CHECK(s.highest[0].value == 4);
  REQUIRE(s.explained_away.size() == 3);
  CHECK(s.explained_away[0].count == 0);  // strictly below
  CHECK(s.explained_away[1].count == 2);
  CHECK(s.explained_away[1].epsilon == 1);
  CHECK(s.explained_away[1].share == 0.4);
  CHECK(s.explained_away[2].count == 4);
}

TEST_CASE("a key is explained away strictly below epsilon") {
  const double epsilon = 1e-8;
  const std::vector<double> sums = {epsilon, std::nextafter(epsilon, 0), std::nextafter(epsilon, 1),
                                    0};
  const auto s = summary_of(sums);
  REQUIRE(s.explained_away.size() == 1);
  CHECK(s.explained_away[0].epsilon == 1e-8);  // the default
  CHECK(s.explained_away[0].count == 2);
  CHECK(s.explained_away[0].share == 0.5);
}

TEST_CASE("summaries of zero keys and one key") {
  for (const auto& [sums, masked] :
       {std::pair<std::vector<double>, Masked>{{}, {}}, {{3.0, 4.0}, {1, 1}}}) {
    const auto s = summary_of(sums, masked);
    CHECK(s.keys == 0);
    CHECK(s.masked_keys == static_cast<Index>(sums.size()));
    for (const double value : {s.min, s.max, s.mean, s.median}) CHECK(std::isnan(value));
    for (const auto& e : s.explained_away) {
      CHECK(e.count == 0);
      CHECK(std::isnan(e.share));
    }
    CHECK(s.lowest.empty());
    CHECK(s.highest.empty());
  }
  const auto one = summary_of({7}, {0});
  for (const double value : {one.min, one.max, one.mean, one.median}) CHECK(value == 7);
  for (const Quantile& q : one.quantiles) CHECK(q.value == 7);
  CHECK(one.quantiles.size() == SummaryOptions{}.probabilities.size());
  CHECK(positions(one.lowest) == std::vector<Index>{0});
  CHECK(positions(one.highest) == std::vector<Index>{0});
}

TEST_CASE("quantiles are NumPy's") {
  // numpy.quantile of version 1.24.
  const std::vector<double> p = {0, .01, .05, .25, .4, .5, .75, .95, .99, 1};
  const std::vector<double> want = {.1, .116, .18, .5, .62, .7, 2., 7.6, 8.72, 9.};
  CHECK(relative_error(quantiles({9.0, 0.5, 0.1, 2.0, 0.7}, p), want) <= 1e-15);
  CHECK(relative_error(quantiles({3, 1, 2, 4}, {.25, .4, .5, .9}),
                       std::vector<double>{1.75, 2.2, 2.5, 3.7}) <= 1e-15);
  CHECK(quantiles({1, 1, 1, 5}, {.5}) == std::vector<double>{1});
}

TEST_CASE("summaries of random sums against sorting them") {
  Random random(111);
  for (int n = 0; n < 300; ++n) {
    const auto sums = random_sums(random);
    Masked masked(chance(random, 0.5) ? sums.size() : 0);
    for (auto& m : masked) m = chance(random, 0.2) ? 1 : 0;
    std::vector<std::pair<double, Index>> keys;
    for (std::size_t j = 0; j < sums.size(); ++j) {
      if (masked.empty() || masked[j] == 0) keys.push_back({sums[j], static_cast<Index>(j)});
    }
    if (keys.empty()) continue;
    std::sort(keys.begin(), keys.end());
    SummaryOptions options;
    options.top = random_index(random, 0, 20);
    options.epsilons = {sums[0], 1e-8, 1};
    const auto s = summary_of(sums, masked, options);
    const auto count = static_cast<Index>(keys.size());
    CAPTURE(n);
    CHECK(s.keys == count);
    CHECK(s.masked_keys == static_cast<Index>(sums.size()) - count);
    CHECK(s.min == keys.front().first);
    CHECK(s.max == keys.back().first);
    CHECK(s.min <= s.median);
    CHECK(s.median <= s.max);
    long double total = 0;
    for (const auto& key : keys) total += key.first;
    CHECK(std::abs(s.mean * static_cast<long double>(count) - total) <=
          static_cast<long double>(count + 1) * 0x1p-53L * total);
    // At least a share p of all lies at or below the p-quantile's upper neighbour, and so on: the
    // order statistics around it enclose it.
    REQUIRE(s.quantiles.size() == options.probabilities.size());
    for (const Quantile& q : s.quantiles) {
      const double at = q.probability * static_cast<double>(count - 1);
      CHECK(q.value >= keys[static_cast<std::size_t>(std::floor(at))].first);
      CHECK(q.value <= keys[static_cast<std::size_t>(std::ceil(at))].first * (1 + 1e-15));
    }
    for (const ExplainedAway& e : s.explained_away) {
      const auto below = std::count_if(keys.begin(), keys.end(),
                                       [&](const auto& key) { return key.first < e.epsilon; });
      CHECK(e.count == below);
      CHECK(e.share == static_cast<double>(below) / static_cast<double>(count));
    }
    const auto top = static_cast<std::size_t>(std::min(options.top, count));
    REQUIRE(s.lowest.size() == top);
    REQUIRE(s.highest.size() == top);
    for (std::size_t t = 0; t < top; ++t) {
      CHECK(std::pair(s.lowest[t].value, s.lowest[t].position) == keys[t]);
    }
    std::sort(keys.begin(), keys.end(), [](const auto& a, const auto& b) {
      return a.first > b.first || (a.first == b.first && a.second < b.second);
    });
    for (std::size_t t = 0; t < top; ++t) {
      CHECK(std::pair(s.highest[t].value, s.highest[t].position) == keys[t]);
    }
  }
}

TEST_CASE("histograms by hand") {
  CHECK(edges_of({{0.02}, {0}, {3}}, 4) == std::vector<double>{-2.5, -1.5, -0.5, 0.5, 1.5});
  // Two decades become three: an edge of four bins on two would be 0.1.
  CHECK(edges_of({{0.01, 1}}, 4) == std::vector<double>{-2.5, -1.5, -0.5, 0.5, 1.5});
  // At least one decade, even for a single power of ten.
  CHECK(edges_of({{1}}, 1) == std::vector<double>{0, 1});
  CHECK(edges_of({{10}}, 2) == std::vector<double>{0.5, 1.5, 2.5});
  CHECK(edges_of({{5}}, 1) == std::vector<double>{0, 1});
  CHECK(edges_of({{0, 0}}, 1) == std::vector<double>{0, 1});
  CHECK(edges_of({}, 1) == std::vector<double>{0, 1});

  const std::vector<double> sums = {0.01, 0.1, 0.05, 1, 0, 100, 0};
  const auto h = histogram(sums, Masked{0, 0, 0, 0, 0, 1, 1}, {-2, -1.5, -1, -0.5, 0});
  CHECK(h.counts == std::vector<Index>{1, 1, 1, 1});  // 0.1 lies on an edge, 1 on the last
  CHECK(h.zeros == 1);
  CHECK(h.edges.size() == 5);
}

TEST_CASE("histograms of random sums") {
  Random random(112);
  for (int n = 0; n < 300; ++n) {
    const std::vector<std::vector<double>> sets = {random_sums(random), random_sums(random)};
    std::optional<Index> bins;
    if (chance(random, 0.7)) bins = random_index(random, 1, 60);
    const auto edges = edges_of(sets, bins);
    CAPTURE(n);
    REQUIRE(edges.size() >= 2);
    const auto count = static_cast<Index>(edges.size()) - 1;
    const double width = (edges.back() - edges.front()) / static_cast<double>(count);
    CHECK(edges.back() - edges.front() >= 1);
    for (std::size_t e = 1; e < edges.size(); ++e) {
      CHECK(std::abs(edges[e] - edges[e - 1] - width) <= 1e-13);  // edges of 300 to 16 digits
    }
    for (std::size_t e = 0; count > 1 && e < edges.size(); ++e) {
      CHECK(std::abs(edges[e] - std::round(edges[e])) > 1e-4);  // no power of ten
    }
    if (bins) {
      CHECK(count == *bins);
    } else {
      // A whole number of bins per decade, or of decades per bin.
      CHECK(count <= 25);
      const double whole = width < 1 ? 1 / width : width;
      CHECK(std::abs(whole - std::round(whole)) <= 1e-12);
    }
    double low = 1000;
    double high = -1000;
    for (const auto& sums : sets) {
      Masked masked(chance(random, 0.5) ? sums.size() : 0);
      for (auto& m : masked) m = chance(random, 0.2) ? 1 : 0;
      std::vector<Index> want(static_cast<std::size_t>(count), 0);
      Index zeros = 0;
      for (std::size_t j = 0; j < sums.size(); ++j) {
        if (sums[j] > 0) low = std::min(low, std::log10(sums[j]));
        if (sums[j] > 0) high = std::max(high, std::log10(sums[j]));
        if (!masked.empty() && masked[j] != 0) continue;
        if (sums[j] == 0) ++zeros;
        for (std::size_t b = 0; sums[j] > 0 && b < want.size(); ++b) {
          const double at = std::log10(sums[j]);
          const bool last = b + 1 == want.size() && at == edges[b + 1];
          if (at >= edges[b] && (at < edges[b + 1] || last)) ++want[b];
        }
      }
      const auto h = histogram(sums, masked, edges);
      const auto unmasked = static_cast<Index>(sums.size()) -
                            std::count(masked.begin(), masked.end(), std::uint8_t{1});
      CHECK(h.edges == edges);
      CHECK(h.counts == want);
      CHECK(h.zeros == zeros);
      CHECK(std::accumulate(h.counts.begin(), h.counts.end(), h.zeros) == unmasked);
    }
    // All lie within. Besides half a bin, less than a decade is empty at the lower end; at the
    // upper one less than two, unless bins are several decades.
    const double half = count > 1 ? width / 2 : 0;
    CHECK(edges.front() <= low);
    CHECK(edges.front() > low - half - 1);
    CHECK(edges.back() >= high);
    if (bins && low < high) CHECK(edges.back() < high + half + 2 + 1e-12);
  }
}
