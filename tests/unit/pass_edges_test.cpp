// Passes without any weights, and requests that a pass refuses.

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <stdexcept>
#include <utility>
#include <vector>

#include "infinity.hpp"
#include "pass/pass.hpp"
#include "random_problem.hpp"
#include "stats/observers.hpp"
#include "thrown_error.hpp"
#include "tile_recorder.hpp"

using namespace attn;
using namespace attn::testing;

namespace {

// A pass without potentials shows every tile once and in order, to observers of all tiles and to
// those of tiles with something allowed, which are returned; the weights are exp(0) where `exact`
// is 0.
template <class T>
TileRecorder<T> check_tiles(const Scores<T>& scores, Order order, const reference::Matrix& exact) {
  TileRecorder<T> some(false), all(true);
  Pass<T> pass;
  pass.scores = &scores;
  pass.order = order;
  pass.components = {Component{}};
  pass.observers = {&some, &all};
  run(pass, 2);
  CHECK(some.saw_each_once(exact, false));
  CHECK(all.saw_each_once(exact, true));
  CHECK(some.in_promised_order());
  CHECK(all.in_promised_order());
  bool right = true;
  for (std::size_t n = 0; n < exact.values.size(); ++n) {
    right = right && all.weights()[n] == (exact.values[n] == 0 ? T{1} : T{0});
  }
  CHECK(right);
  return some;
}

}  // namespace

TEST_CASE_TEMPLATE("tiles without allowed pairs come in order with the others, as zeros", T, float,
                   double) {
  // Long enough for whole tiles beyond the diagonal, before and after the allowed ones.
  for (const Index rows : {1100, 1300}) {
    const Index cols = rows == 1100 ? 1300 : 600;
    for (const Causal causal : {Causal::top_left, Causal::bottom_right}) {
      const auto energy = make_zero_energy<T>(rows, cols);
      const Scores<T> scores({energy.get(), nullptr, nullptr, causal_band(causal, rows, cols)});
      reference::Matrix exact(rows, cols, -infinity);
      const Index ahead = causal == Causal::bottom_right ? cols - rows : 0;
      for (Index i = 0; i < rows; ++i) {
        for (Index j = 0; j < cols && j <= i + ahead; ++j) exact(i, j) = 0;
      }
      for (const Order order : {Order::row_panels, Order::column_panels}) {
        CAPTURE(rows);
        CAPTURE(static_cast<int>(causal));
        CAPTURE(static_cast<int>(order));
        check_tiles(scores, order, exact);
      }
    }
  }
}

TEST_CASE_TEMPLATE("a window empties tiles at both ends of a panel", T, float, double) {
  const Index rows = 1300;
  const Index cols = 1700;
  const auto energy = make_zero_energy<T>(rows, cols);
  typename Scores<T>::Terms terms;
  terms.energy = energy.get();
  terms.band = causal_band(Causal::bottom_right, rows, cols);
  terms.band.window = Window::nearer_than(40);
  const Scores<T> scores(terms);
  reference::Terms exact_terms;
  exact_terms.causal = Causal::bottom_right;
  exact_terms.window = Window::nearer_than(40);
  const auto exact = reference::scores(reference::Matrix(rows, cols), exact_terms);
  for (const Order order : {Order::row_panels, Order::column_panels}) {
    CAPTURE(static_cast<int>(order));
    const TileRecorder<T> some = check_tiles(scores, order, exact);
    CHECK(!some.saw_each_once(exact, true));
  }
}

TEST_CASE_TEMPLATE("an empty span is all zeros, for each part of a mixture by itself", T, float,
                   double) {
  const auto energy = make_zero_energy<T>(2, 3);
  const Scores<T> scores({energy.get(), nullptr, nullptr});
  std::vector<double> f = {std::log(2.0), -infinity};
  std::vector<double> g = {std::log(4.0), 0, -infinity};
  // By hand: π = Σ coefficient / (exp(g)·exp(f)), 0 where masked.
  const std::vector<double> only_f = {0.5, 0.5, 0.5, 0, 0, 0};
  const std::vector<double> only_g = {0.25, 1, 0, 0.25, 1, 0};
  const auto sum = [](const std::vector<double>& a, double factor, const std::vector<double>& b) {
    std::vector<double> total;
    for (std::size_t n = 0; n < a.size(); ++n) total.push_back(a[n] + factor * b[n]);
    return total;
  };
  const auto weights = [&](Order order, std::vector<Component> components) {
    TileRecorder<T> tiles(true);
    Pass<T> pass;
    pass.scores = &scores;
    pass.order = order;
    pass.components = std::move(components);
    pass.observers = {&tiles};
    run(pass, 1);
    return tiles.weights();
  };
  for (const Order order : {Order::row_panels, Order::column_panels}) {
    // exp and log to an ulp each, products and sums to half of one.
    const double error = 6 * std::numeric_limits<T>::epsilon();
    CHECK(relative_error(weights(order, {{1, f, {}}}), only_f) <= error);
    CHECK(relative_error(weights(order, {{1, {}, g}}), only_g) <= error);
    CHECK(relative_error(weights(order, {{1, f, {}}, {3, {}, g}}), sum(only_f, 3, only_g)) <=
          error);
    CHECK(relative_error(weights(order, {{1, {}, g}, {3, f, {}}}), sum(only_g, 3, only_f)) <=
          error);
  }
}

TEST_CASE_TEMPLATE("lengths of 0", T, float, double) {
  for (const auto& [rows, cols] : {std::pair<Index, Index>{0, 0}, {0, 5}, {7, 0}, {200, 0}}) {
    const auto energy = make_zero_energy<T>(rows, cols);
    const Scores<T> scores({energy.get(), nullptr, nullptr});
    std::vector<double> f(static_cast<std::size_t>(rows), 1);
    std::vector<double> g(static_cast<std::size_t>(cols), 1);
    ColumnSums<T> sums;
    Pass<T> pass;
    pass.scores = &scores;
    pass.completes = Completes::rows;
    pass.components = {Component{1, f, {}}};
    pass.observers = {&sums};
    run(pass, 2);
    CHECK(f == std::vector<double>(static_cast<std::size_t>(rows), -infinity));
    CHECK(sums.values() == std::vector<double>(static_cast<std::size_t>(cols), 0));
    pass.order = Order::column_panels;
    pass.completes = Completes::columns;
    pass.components = {Component{1, {}, g}};
    run(pass, 2);
    CHECK(g == std::vector<double>(static_cast<std::size_t>(cols), -infinity));
    CHECK(sums.values() == std::vector<double>(static_cast<std::size_t>(cols), 0));
  }
}

TEST_CASE("a request that the order cannot complete is a logic error") {
  const auto energy = make_zero_energy<float>(5, 6);
  const Scores<float> scores({energy.get(), nullptr, nullptr});
  std::vector<double> f(5), g(6);
  const Component pair{1, f, g};
  const auto attempt = [&](Order order, Completes completes, std::vector<Component> components) {
    Pass<float> pass;
    pass.scores = &scores;
    pass.order = order;
    pass.completes = completes;
    pass.components = std::move(components);
    run(pass, 1);
  };
  const auto by_row = Order::row_panels;
  const auto by_col = Order::column_panels;
  CHECK_THROWS_AS(attempt(by_col, Completes::rows, {pair}), std::logic_error);
  CHECK_THROWS_AS(attempt(by_row, Completes::columns, {pair}), std::logic_error);
  CHECK_THROWS_AS(attempt(by_col, Completes::columns, {pair, pair}), std::logic_error);
  for (const Order order : {by_row, by_col}) {
    CHECK_THROWS_AS(attempt(order, Completes::nothing, {}), std::logic_error);
    CHECK_NOTHROW(attempt(order, Completes::nothing, {pair, pair}));
  }
  CHECK_THROWS_AS(attempt(by_row, Completes::rows, {}), std::logic_error);
  CHECK_THROWS_AS(attempt(by_col, Completes::columns, {}), std::logic_error);
  CHECK_NOTHROW(attempt(by_row, Completes::rows, {pair, pair}));
  CHECK_NOTHROW(attempt(by_col, Completes::columns, {pair}));
}

TEST_CASE("a pass rethrows an error of the scores, the same for any number of threads") {
  constexpr Index rows = 1000;
  std::vector<float> s(rows * 3, 0.0F);
  for (const std::size_t at : {700U, 1300U, 2900U}) s[at] = 1e38F;
  const BroadcastMatrix<float> source(s.data(), 3, 1);
  const auto energy = make_stored_energy<float>(source, rows, 3, 1);
  const Scores<float> scores({energy.get(), nullptr, nullptr});
  std::vector<double> f(rows);
  Pass<float> pass;
  pass.scores = &scores;
  pass.completes = Completes::rows;
  pass.components = {Component{1, f, {}}};
  for (const int threads : {1, 2, 3, 8}) {
    const Error error = thrown_error([&] { run(pass, threads); });
    CHECK(error.failure() == Failure::numerical);
    CHECK(contains(error.what(), "query 233 and key 1"));
  }
}
