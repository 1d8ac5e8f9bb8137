// A solution of Sinkhorn's iterations that stops and goes on has the bits of one that did not.

#include <doctest/doctest.h>

#include <atomic>
#include <optional>
#include <utility>

#include "parallel/stop_flag.hpp"
#include "random_problem.hpp"
#include "same_bits.hpp"
#include "sinkhorn/barycentre.hpp"
#include "sinkhorn/sinkhorn_solver.hpp"

using namespace attn;
using namespace attn::testing;

namespace {

// Asks for a stop once some iterations have begun, and keeps the state at which the solver stops.
class StopAfter final : public SinkhornProgress {
 public:
  StopAfter(Index iterations, std::optional<SinkhornState> from, std::atomic<bool>& flag)
      : left_(iterations), from_(std::move(from)), flag_(flag) {}

  const SinkhornState* start() const override { return from_ ? &*from_ : nullptr; }
  bool is_due() override {
    if (left_-- == 0) flag_ = true;
    return false;
  }
  void keep(SinkhornState& state) override { kept_ = state; }

  const std::optional<SinkhornState>& kept() const { return kept_; }

 private:
  Index left_;
  std::optional<SinkhornState> from_;
  std::atomic<bool>& flag_;
  std::optional<SinkhornState> kept_;
};

template <class Solution>
struct Solved {
  Solution solution;
  Index stops = 0;
};

// Calls solve(progress) in pieces of `each` iterations.
template <class Solve>
auto in_pieces(const Solve& solve, Index each) {
  std::optional<SinkhornState> state;
  for (Solved<decltype(solve(nullptr))> solved;; ++solved.stops) {
    std::atomic<bool> flag{false};
    const StopFlag::Use use(&flag);
    StopAfter progress(each, state, flag);
    try {
      solved.solution = solve(&progress);
      return solved;
    } catch (const Stopped&) {
      state = progress.kept();
    }
  }
}

template <class T>
void require_same(const Scores<T>& scores, const Marginals& marginals,
                  const SinkhornOptions& options, Index each) {
  const auto solve = [&](SinkhornProgress* progress) {
    return solve_sinkhorn<T>(scores, marginals, options, {}, 1, progress);
  };
  const SinkhornSolution whole = solve(nullptr);
  const auto pieces = in_pieces(solve, each);
  CAPTURE(whole.summary.iterations);
  if (whole.summary.iterations > each) CHECK(pieces.stops > 0);
  const SinkhornSolution& found = pieces.solution;
  CHECK(found.summary.iterations == whole.summary.iterations);
  CHECK(found.summary.status == whole.summary.status);
  CHECK(found.summary.row_error == whole.summary.row_error);
  CHECK(found.summary.col_error == whole.summary.col_error);
  CHECK(same_nonempty_bits(found.potentials.row, whole.potentials.row));
  CHECK(same_nonempty_bits(found.potentials.col, whole.potentials.col));
  CHECK(same_nonempty_bits(found.errors, whole.errors));
  REQUIRE(found.summary.convergence.has_value() == whole.summary.convergence.has_value());
  if (whole.summary.convergence) {
    CHECK(found.summary.convergence->rate == whole.summary.convergence->rate);
  }
}

template <class T>
void try_all() {
  // Small scores, whose kernel refers to zero; scores that have to be absorbed; and masks.
  for (const double spread : {1.0, 6.0, 30.0}) {
    for (const bool mask : {false, true}) {
      Random random(7);
      ProblemOptions sizes;
      sizes.queries = 37;
      sizes.keys = 53;
      sizes.depth = 3;
      sizes.spread = spread;
      sizes.mask = mask;
      const Problem<T> problem(sizes, random);
      const Scores<T>& scores = problem.scores();
      Marginals marginals = uniform_marginals(scores.allowed_counts());
      CAPTURE(spread);
      CAPTURE(mask);
      for (const double relaxation : {1.0, 1.7}) {
        CAPTURE(relaxation);
        SinkhornOptions options;
        options.relaxation = relaxation;
        options.stopping.iterations = 40;
        require_same(scores, marginals, options, 3);
        options.stopping.tolerance = sizeof(T) == sizeof(float) ? 1e-5 : 1e-9;
        options.stopping.iterations = 400;
        require_same(scores, marginals, options, 7);
        options.anneals = true;
        require_same(scores, marginals, options, 11);
      }
      // In proportion to the scores, so that the plan is in range.
      for (const double penalty : {0.3 * spread * spread, 10 * spread * spread}) {
        CAPTURE(penalty);
        marginals.penalties = {penalty, 2 * penalty};
        SinkhornOptions options;
        options.stopping.iterations = 20;
        require_same(scores, marginals, options, 3);
        options.relaxation = 1.3;
        options.stopping.tolerance = sizeof(T) == sizeof(float) ? 1e-5 : 1e-9;
        options.stopping.iterations = 400;
        options.anneals = true;
        require_same(scores, marginals, options, 7);
      }
    }
  }
}

}  // namespace

TEST_CASE("a solution that stops goes on to the same bits") {
  SUBCASE("float32") { try_all<float>(); }
  SUBCASE("float64") { try_all<double>(); }
}

TEST_CASE("a barycentre that stops goes on to the same bits") {
  Random random(8);
  ProblemOptions sizes;
  sizes.queries = 19;
  sizes.keys = 26;
  sizes.depth = 3;
  sizes.spread = 4;
  const Problem<float> problem(sizes, random);
  std::uniform_real_distribution<double> uniform(0.5, 1);
  std::vector<double> masses(2 * 26);
  for (std::size_t n = 0; n < masses.size(); n += 2) {
    masses[n] = uniform(random) / 13;
    masses[n + 1] = 2.0 / 13 - masses[n];
  }
  const std::vector<double> weights = {0.3, 0.7};
  BarycentreOptions options;
  // Below what float32 reaches without bringing the plan nearer.
  options.stopping.tolerance = 2e-6;
  const auto solve = [&](SinkhornProgress* progress) {
    return find_barycentre<float>(problem.scores(), {2, masses, weights}, options, 1, progress);
  };
  const Barycentre whole = solve(nullptr);
  const auto pieces = in_pieces(solve, 7);
  CHECK(pieces.stops > 2);
  CHECK(pieces.solution.summary.iterations == whole.summary.iterations);
  CHECK(pieces.solution.summary.gap == whole.summary.gap);
  CHECK(same_nonempty_bits(pieces.solution.masses, whole.masses));
  CHECK(same_nonempty_bits(pieces.solution.row, whole.row));
  CHECK(same_nonempty_bits(pieces.solution.col, whole.col));
  CHECK(same_nonempty_bits(pieces.solution.errors, whole.errors));
}
