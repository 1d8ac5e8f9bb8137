#include "sinkhorn/network_simplex.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <functional>
#include <thread>
#include <vector>

#include "infinity.hpp"
#include "parallel/stop_flag.hpp"
#include "random_problem.hpp"

using namespace attn;
using namespace attn::testing;

namespace {

// A problem that has a plan: some amounts over allowed pairs, and their sums.
template <class T>
struct WholeProblem {
  Index rows, cols;
  std::vector<T> scores;
  PooledVector<std::int64_t> supply, room;

  WholeProblem(Index m, Index n, double allowed, std::int64_t most, Random& random)
      : rows(m), cols(n), supply(static_cast<std::size_t>(m)), room(static_cast<std::size_t>(n)) {
    std::uniform_real_distribution<double> share;
    std::uniform_int_distribution<std::int64_t> amounts(0, most);
    std::normal_distribution<double> normal;
    for (Index i = 0; i < m; ++i) {
      for (Index j = 0; j < n; ++j) {
        const bool open = share(random) < allowed;
        scores.push_back(static_cast<T>(open ? normal(random) : -infinity));
        const std::int64_t amount = open && share(random) < 0.3 ? amounts(random) : 0;
        supply[static_cast<std::size_t>(i)] += amount;
        room[static_cast<std::size_t>(j)] += amount;
      }
    }
  }

  BasicPlan solve() const {
    std::vector<T> matrix(scores.size());
    const auto fill = [&] { std::copy(scores.begin(), scores.end(), matrix.begin()); };
    return solve_by_pivots<T>({matrix.data(), rows, cols}, fill, supply, room);
  }
};

// The sums of the plan, and complementary slackness, which proves that no plan is better.
template <class T>
void check_optimal(const WholeProblem<T>& of, const BasicPlan& plan, double rounding) {
  PooledVector<std::int64_t> supply = of.supply, room = of.room;
  const auto slack = [&](Index i, Index j) {
    return plan.potentials.row[static_cast<std::size_t>(i)] +
           plan.potentials.col[static_cast<std::size_t>(j)] -
           static_cast<double>(of.scores[static_cast<std::size_t>(i * of.cols + j)]);
  };
  for (const Shipment& s : plan.shipments) {
    CHECK(s.amount > 0);
    supply[static_cast<std::size_t>(s.row)] -= s.amount;
    room[static_cast<std::size_t>(s.col)] -= s.amount;
    CHECK(std::abs(slack(s.row, s.col)) <= rounding);
  }
  CHECK(std::all_of(supply.begin(), supply.end(), [](auto left) { return left == 0; }));
  CHECK(std::all_of(room.begin(), room.end(), [](auto left) { return left == 0; }));
  double least = 0;
  for (Index i = 0; i < of.rows; ++i) {
    if (of.supply[static_cast<std::size_t>(i)] == 0) continue;
    for (Index j = 0; j < of.cols; ++j) {
      if (of.room[static_cast<std::size_t>(j)] > 0) least = std::min(least, slack(i, j));
    }
  }
  CHECK(least >= -rounding);
}

}  // namespace

TEST_CASE_TEMPLATE("the network simplex finds plans with exact sums that are provably best", T,
                   float, double) {
  Random random(41);
  for (const auto& [m, n] :
       {std::pair<Index, Index>{1, 1}, {1, 9}, {9, 1}, {13, 7}, {40, 33}, {3, 5000}}) {
    for (const double allowed : {1.0, 0.4, 0.1}) {
      // Small amounts have many equal partial sums: degenerate bases.
      for (const std::int64_t most : {std::int64_t{1}, std::int64_t{1} << 40}) {
        const WholeProblem<T> problem(m, n, allowed, most, random);
        CAPTURE(problem.rows);
        CAPTURE(problem.cols);
        CAPTURE(allowed);
        check_optimal(problem, problem.solve(), 1e-11);
      }
    }
  }
}

TEST_CASE("the network simplex: long chains have large potentials, and huge scores do no harm") {
  // Rows i allow columns i and i + 1, whose scores differ by 1: f and g grow to n.
  Random random(42);
  const Index n = 3000;
  WholeProblem<double> chain(n, n, 0.0, 1, random);
  for (Index i = 0; i < n; ++i) {
    chain.supply[static_cast<std::size_t>(i)] = chain.room[static_cast<std::size_t>(i)] = 1;
    chain.scores[static_cast<std::size_t>(i * n + i)] = 0;
    if (i + 1 < n) chain.scores[static_cast<std::size_t>(i * n + i + 1)] = 1;
  }
  const BasicPlan plan = chain.solve();
  check_optimal(chain, plan, 0);
  CHECK(plan.potentials.row.front() - plan.potentials.row.back() >= n - 1);

  WholeProblem<double> mixed(20, 20, 1.0, 5, random);
  WholeProblem<double> without = mixed;
  for (std::size_t p = 0; p < mixed.scores.size(); p += 3) {
    // Row and column sums of the other pairs have room for all, or the plan takes these pairs.
    mixed.scores[p] = -1e17;
  }
  check_optimal(mixed, mixed.solve(), 100);
  for (double& score : without.scores) score *= 1e300;
  check_optimal(without, without.solve(), 1e289);
}

TEST_CASE("the network simplex serves what can be served, and stops when asked") {
  Random random(43);
  WholeProblem<double> problem(2, 2, 1.0, 1, random);
  problem.scores = {1, -infinity, -infinity, -infinity};
  problem.supply = {3, 2};
  problem.room = {4, 1};
  const BasicPlan plan = problem.solve();
  REQUIRE(plan.shipments.size() == 1);
  CHECK(plan.shipments.front().amount == 3);
  problem.supply = problem.room = {0, 0};
  CHECK(problem.solve().shipments.empty());
  CHECK(problem.solve().potentials.row.front() == -infinity);
  problem.supply = problem.room = {1, 1};
  std::atomic<bool> asked{true};
  const StopFlag::Use use(&asked);
  CHECK_THROWS_AS(problem.solve(), Stopped);
  // While it pivots, which takes a tenth of a second at least.
  const WholeProblem<double> large(1500, 1500, 1.0, std::int64_t{1} << 40, random);
  asked = false;
  std::thread other([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    asked = true;
  });
  CHECK_THROWS_AS(large.solve(), Stopped);
  other.join();
}

TEST_CASE("the network simplex: neighbours that are alike take no more pivots than others") {
  Random random(44);
  const Index n = 400;
  std::normal_distribution<double> normal;
  std::vector<double> x, y;
  for (Index i = 0; i < n; ++i) x.push_back(normal(random)), y.push_back(normal(random));
  std::sort(x.begin(), x.end(), std::greater<>());
  std::sort(y.begin(), y.end());
  WholeProblem<double> line(n, n, 1.0, 0, random);
  for (std::size_t i = 0; i < x.size(); ++i) {
    line.supply[i] = line.room[i] = 1;
    for (std::size_t j = 0; j < y.size(); ++j) {
      line.scores[i * y.size() + j] = -(x[i] - y[j]) * (x[i] - y[j]);
    }
  }
  const BasicPlan plan = line.solve();
  check_optimal(line, plan, 1e-12);
  CHECK(plan.pivots < 40 * n);
}
