#include "pass/stored_weights.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <stdexcept>
#include <vector>

#include "infinity.hpp"
#include "pass/output.hpp"
#include "random_problem.hpp"
#include "same_bits.hpp"
#include "stats/observers.hpp"
#include "thrown_error.hpp"
#include "tile_recorder.hpp"

using namespace attn;
using namespace attn::testing;

namespace {

template <class T>
std::vector<T> random_weights(Index count, Random& random) {
  std::uniform_real_distribution<double> size(-30, 1);
  std::vector<T> weights(static_cast<std::size_t>(count));
  for (T& w : weights) w = chance(random, 0.2) ? T{0} : static_cast<T>(std::exp(size(random)));
  return weights;
}

template <class T>
struct Shown {
  TileRecorder<T> tiles{false};
  ColumnSums<T> sums;
  RowEntropy<T> entropy;
  std::vector<T> out;

  Shown(const std::vector<T>& weights, const std::vector<T>& v, Index rows, Index cols, int threads)
      // The previous contents of `out` must not matter.
      : out(static_cast<std::size_t>(rows * 3), std::numeric_limits<T>::quiet_NaN()) {
    const BroadcastMatrix<T> source(weights.data(), cols, 1);
    Output<T> output({v.data(), cols, 3}, {out.data(), rows, 3});
    show_stored_weights<T>(source, rows, cols, {&tiles, &sums, &entropy, &output}, threads);
  }
};

template <class T>
std::string refusal(std::vector<T> weights, Index cols, int threads = 2) {
  const BroadcastMatrix<T> source(weights.data(), cols, 1);
  const auto rows = static_cast<Index>(weights.size()) / cols;
  const Error error =
      thrown_error([&] { show_stored_weights<T>(source, rows, cols, {}, threads); });
  CHECK(error.failure() == Failure::input);
  return error.what();
}

}  // namespace

TEST_CASE_TEMPLATE("observers of stored weights agree with plain loops", T, float, double) {
  Random random(101);
  for (int n = 0; n < 16; ++n) {
    const Index rows = n == 0 ? 300 : random_size(random, 1, 300);
    const Index cols = n == 0 ? 1100 : random_size(random, 1, 1100);
    const auto weights = random_weights<T>(rows * cols, random);
    std::vector<T> v = random_weights<T>(cols * 3, random);
    const Shown<T> shown(weights, v, rows, cols, 2);
    reference::Matrix exact(rows, cols);
    reference::Matrix values(cols, 3);
    exact.values.assign(weights.begin(), weights.end());
    values.values.assign(v.begin(), v.end());
    CAPTURE(rows);
    CAPTURE(cols);
    CHECK(same_nonempty_bits(shown.tiles.weights(), weights));
    CHECK(shown.tiles.saw_each_once(exact, true));
    CHECK(shown.tiles.in_promised_order());
    CHECK(shown.tiles.started_and_finished_once());
    const Partition expected = partition_of(Order::row_panels, rows, cols, sizeof(T));
    CHECK(shown.tiles.partition().panel == expected.panel);
    CHECK(shown.tiles.partition().slots == expected.slots);
    // All terms are >= 0 except those of the entropies (weights up to e): sums in T of at most 64
    // terms (out: of one tile, 512, in BLAS' order), the rest in float64 (out: in T, one term per
    // tile).
    const double u = std::numeric_limits<T>::epsilon() / 2;
    CHECK(relative_error(shown.sums.values(), reference::column_sums(exact)) <= 70 * u);
    CHECK(relative_error(shown.out, reference::output(exact, values).values) <= 520 * u);
    const auto entropies = reference::row_entropies(exact);
    bool close = true;
    for (Index i = 0; i < rows; ++i) {
      long double magnitude = 0;
      for (Index j = 0; j < cols; ++j) {
        const long double p = exact(i, j);
        if (p > 0) magnitude += std::abs(p * std::log(p));
      }
      const auto at = static_cast<std::size_t>(i);
      close = close && std::abs(shown.entropy.values()[at] - entropies[at]) <= 80 * u * magnitude;
    }
    CHECK(close);
  }
}

TEST_CASE_TEMPLATE("stored weights on any number of threads give the same bits", T, float, double) {
  Random random(102);
  const Index rows = 900;
  const Index cols = 600;
  const auto weights = random_weights<T>(rows * cols, random);
  const auto v = random_weights<T>(cols * 3, random);
  const Shown<T> one(weights, v, rows, cols, 1);
  for (const int threads : {2, 3, 8}) {
    const Shown<T> many(weights, v, rows, cols, threads);
    CHECK(many.sums.values() == one.sums.values());
    CHECK(many.entropy.values() == one.entropy.values());
    CHECK(same_nonempty_bits(many.out, one.out));
  }
}

TEST_CASE_TEMPLATE("a stored weight that is not a finite number >= 0 is refused with its position",
                   T, float, double) {
  for (const double bad : {-1.0, -1e-30, std::nan(""), infinity, -infinity}) {
    std::vector<T> weights(300 * 700, T{0.5});
    weights[290 * 700 + 650] = static_cast<T>(bad);
    CHECK(contains(refusal(weights, 700), "the weight of query 290 and key 650 is"));
    CHECK(contains(refusal(std::vector<T>{static_cast<T>(bad)}, 1), "query 0 and key 0"));
  }
  CHECK(contains(refusal(std::vector<T>{1, -2}, 2), "-2"));
}

TEST_CASE("the first of several bad weights is named, for any number of threads") {
  std::vector<float> weights(1000 * 4, 0.25F);
  for (const std::size_t query : {400U, 700U, 990U}) weights[query * 4 + 1] = -1;
  for (const int threads : {1, 2, 4}) {
    CHECK(contains(refusal(weights, 4, threads), "query 400 and key 1"));
  }
}

TEST_CASE_TEMPLATE("all other numbers are weights", T, float, double) {
  using Limits = std::numeric_limits<T>;
  const std::vector<T> weights = {T{0}, -T{0}, Limits::denorm_min(), T{3}, Limits::max()};
  const BroadcastMatrix<T> source(weights.data(), 5, 1);
  ColumnSums<T> sums;
  show_stored_weights<T>(source, 1, 5, {&sums}, 1);
  CHECK(sums.values() == std::vector<double>(weights.begin(), weights.end()));
  for (const auto& [rows, cols] : {std::pair<Index, Index>{0, 4}, {4, 0}, {0, 0}}) {
    show_stored_weights<T>(source, rows, cols, {&sums}, 2);
    CHECK(sums.values() == std::vector<double>(static_cast<std::size_t>(cols), 0));
  }
}

TEST_CASE_TEMPLATE("observers by rows refuse column panels", T, float, double) {
  const Partition by_column = partition_of(Order::column_panels, 3, 4, sizeof(T));
  RowEntropy<T> entropy;
  CHECK_THROWS_AS(entropy.start(by_column), std::logic_error);
}

TEST_CASE_TEMPLATE("out has a row stride of its own, and zeros where no tile is shown", T, float,
                   double) {
  const std::vector<T> v = {1, 2, 3, 4};
  std::vector<T> out(15, T{9});
  Output<T> output({v.data(), 2, 2}, {out.data(), 3, 2, 5});
  output.start(partition_of(Order::row_panels, 3, 2, sizeof(T)));
  const std::vector<T> weights = {T{0.5}, T{0.25}};
  output.observe({{1, 1, 0, 2}, {weights.data(), 1, 2}}, 0);
  output.finish();
  CHECK(out == std::vector<T>{0, 0, 9, 9, 9, T{1.25}, 2, 9, 9, 9, 0, 0, 9, 9, 9});
}
