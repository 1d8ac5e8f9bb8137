// Column sums and entropies of attention against their proven bounds.

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "random_problem.hpp"
#include "stats/observers.hpp"
#include "stats/summary.hpp"

using namespace attn;
using namespace attn::testing;

namespace {

template <class T>
struct Observed {
  ColumnSums<T> sums;
  RowEntropy<T> entropy;
  Attention attention;

  Observed(const Scores<T>& scores, const SchemeOptions& options)
      : attention(attend<T>(scores, options, {&sums, &entropy}, 2)) {}

  // min c_j·most_keys over the keys that have an allowed query; 1 if there are none.
  double margin() const {
    const auto& allowed = attention.allowed;
    double least = std::numeric_limits<double>::infinity();
    for (std::size_t j = 0; j < sums.values().size(); ++j) {
      if (allowed.queries_of_key[j] == 0) continue;
      const double share = sums.values()[j] * static_cast<double>(allowed.most_keys());
      if (!(share >= least)) least = share;  // a NaN is kept
    }
    return least;
  }
};

SchemeOptions scheme_of(Scheme scheme, Index iterations = 1, double hybrid = 0.5) {
  SchemeOptions options;
  options.scheme = scheme;
  options.stopping.iterations = iterations;
  options.hybrid = hybrid;
  return options;
}

// Rectangular, masked in every way, and sharp enough to come near the bounds.
ProblemOptions random_sharp_options(Random& random) {
  ProblemOptions options;
  options.queries = random_size(random, 1, 120);
  options.keys = random_size(random, 1, 120);
  options.depth = random_size(random, 1, 20);
  options.spread = std::exp(std::uniform_real_distribution<double>(-2, 3)(random));
  options.mask = chance(random, 0.6);
  options.bias = chance(random, 0.3);
  if (chance(random, 0.3)) options.causal = Causal::bottom_right;
  return options;
}

}  // namespace

TEST_CASE("the bound on column sums, by scheme") {
  CHECK(!column_sum_bound(Scheme::unas, 0.5, 10));
  CHECK(column_sum_bound(Scheme::dnas, 0, 10) == 0.1);
  CHECK(column_sum_bound(Scheme::sinkhorn, 0, 8) == 0.125);
  CHECK(column_sum_bound(Scheme::hnas, 0.25, 8) == 0.03125);
  CHECK(column_sum_bound(Scheme::hnas, 1, 8) == 0.125);
  CHECK(!column_sum_bound(Scheme::hnas, 0, 8));  // this is unas
  for (const Scheme scheme : {Scheme::unas, Scheme::dnas, Scheme::hnas, Scheme::sinkhorn}) {
    CHECK(!column_sum_bound(scheme, 0.5, 0));  // no allowed pairs
  }
  // At most the error of exp at the edge of the format: its argument is rounded at 88 (708).
  CHECK(bound_slack(4) >= 88 * 0x1p-24);
  CHECK(bound_slack(8) >= 708 * 0x1p-53);
  CHECK(bound_slack(4) <= 1e-3);
  CHECK(bound_slack(8) <= 1e-3);
}

TEST_CASE_TEMPLATE(
    "sinkhorn keeps column sums >= 1/most_keys in every iteration, for every shape and mask", T,
    float, double) {
  Random random(121);
  double least = std::numeric_limits<double>::infinity();
  for (int n = 0; n < 60; ++n) {
    const Problem<T> problem(random_sharp_options(random), random);
    for (const Index iterations : {1, 2, 5}) {
      const Observed<T> run(problem.scores(), scheme_of(Scheme::sinkhorn, iterations));
      CAPTURE(n);
      CAPTURE(iterations);
      CHECK(run.margin() >= 1 - bound_slack(sizeof(T)));
      least = std::min(least, run.margin());
    }
  }
  CHECK(least <= 1.5);  // some came near it, so the problems are hard enough
}

TEST_CASE_TEMPLATE("dnas keeps column sums >= 1/most_keys, hnas >= u/most_keys, unas has no bound",
                   T, float, double) {
  Random random(122);
  double unas = 1;
  double hnas = std::numeric_limits<double>::infinity();
  for (int n = 0; n < 80; ++n) {
    const Problem<T> problem(random_sharp_options(random), random);
    const double slack = 1 - bound_slack(sizeof(T));
    CAPTURE(n);
    CHECK(Observed<T>(problem.scores(), scheme_of(Scheme::dnas)).margin() >= slack);
    for (const double u : {0.05, 0.5, 1.0}) {
      const Observed<T> run(problem.scores(), scheme_of(Scheme::hnas, 1, u));
      CHECK(run.margin() >= u * slack);
      hnas = std::min(hnas, run.margin() / u);
    }
    unas = std::min(unas, Observed<T>(problem.scores(), scheme_of(Scheme::unas)).margin());
  }
  CHECK(unas <= 1e-10);
  CHECK(hnas <= 2);
}

TEST_CASE_TEMPLATE("entropies lie between 0 and the logarithm of the number of allowed keys", T,
                   float, double) {
  Random random(123);
  for (int n = 0; n < 60; ++n) {
    const Problem<T> problem(random_sharp_options(random), random);
    for (const Scheme scheme : {Scheme::unas, Scheme::dnas, Scheme::hnas, Scheme::sinkhorn}) {
      const Observed<T> run(problem.scores(), scheme_of(scheme, 3));
      const auto& allowed = run.attention.allowed;
      bool within = true;
      for (std::size_t i = 0; i < allowed.keys_of_query.size(); ++i) {
        const double entropy = run.entropy.values()[i];
        const auto keys = static_cast<double>(allowed.keys_of_query[i]);
        // Each term to some ulps, and weights whose sum is 1 to 64 roundings of T.
        const double error = 80 * std::numeric_limits<T>::epsilon() * (1 + std::log(keys + 1));
        within = within && (keys == 0 ? entropy == 0
                                      : entropy >= -error && entropy <= std::log(keys) + error);
      }
      CAPTURE(n);
      CHECK(within);
    }
  }
}

TEST_CASE_TEMPLATE("uniform weights have entropy log n, a single weight 0", T, float, double) {
  for (const Index keys : {1, 2, 3, 100, 513, 2000}) {
    const auto energy = make_zero_energy<T>(3, keys);
    const Scores<T> scores({energy.get(), nullptr, nullptr});
    for (const Scheme scheme : {Scheme::unas, Scheme::dnas, Scheme::sinkhorn}) {
      const Observed<T> run(scores, scheme_of(scheme, 2));
      const double want = std::log(static_cast<double>(keys));
      const double error = 80 * std::numeric_limits<T>::epsilon() * (1 + want);
      for (const double entropy : run.entropy.values()) CHECK(std::abs(entropy - want) <= error);
      for (const double sum : run.sums.values()) {
        CHECK(std::abs(sum * static_cast<double>(keys) / 3 - 1) <=
              8 * std::numeric_limits<T>::epsilon());
      }
    }
  }
  // Queries with 0, 1 and 2 allowed keys, all with equal scores.
  const auto energy = make_zero_energy<T>(4, 2);
  const Scores<T> scores({energy.get(), nullptr, nullptr, causal_band(Causal::bottom_right, 4, 2)});
  const Observed<T> run(scores, scheme_of(Scheme::unas));
  CHECK(run.entropy.values()[0] == 0);
  CHECK(run.entropy.values()[1] == 0);
  CHECK(run.entropy.values()[2] == 0);
  CHECK(std::abs(run.entropy.values()[3] - std::log(2.0)) <= 4 * std::numeric_limits<T>::epsilon());
}

TEST_CASE("bytes of column sums: one vector, plus one per slot of row panels") {
  const auto by_row = partition_of(Order::row_panels, 4000, 300, 4);
  const auto by_col = partition_of(Order::column_panels, 4000, 300, 4);
  REQUIRE(by_row.slots > 1);
  CHECK(ColumnSums<float>::bytes(by_row) == (by_row.slots + 1) * 300 * 8);
  CHECK(ColumnSums<float>::bytes(by_col) == 300 * 8);
}
