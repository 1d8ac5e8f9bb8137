// Iterations that are stopped and go on from the state that was kept have the bits of others.

#include <doctest/doctest.h>

#include <atomic>
#include <cstring>
#include <vector>

#include "energy/table.hpp"
#include "head/repeated_scores.hpp"
#include "parallel/kept_state.hpp"
#include "shared_run.hpp"
#include "thrown_error.hpp"

using namespace attn;
using namespace attn::testing;

namespace {

// Asks for a stop once some steps have begun.
class StopAfter final : public StateKeeper {
 public:
  StopAfter(int steps, std::vector<std::byte> from, std::atomic<bool>& flag)
      : left_(steps), from_(std::move(from)), flag_(flag) {}

  std::span<const std::byte> start() const override { return from_; }
  bool is_due() override {
    if (left_-- == 0) flag_ = true;
    return left_ % 2 == 0;
  }
  void keep(std::span<const std::byte> state) override { kept_.assign(state.begin(), state.end()); }

  const std::vector<std::byte>& kept() const { return kept_; }

 private:
  int left_;
  std::vector<std::byte> from_;
  std::atomic<bool>& flag_;
  std::vector<std::byte> kept_;
};

template <class Result>
struct InPieces {
  Result result;
  int stops = 0;
};

// Calls compute(keeper) until it is not stopped, for three steps each time.
template <class Compute>
auto in_pieces(const Compute& compute) {
  std::vector<std::byte> state;
  for (InPieces<decltype(compute(nullptr))> found;; ++found.stops) {
    std::atomic<bool> flag{false};
    const StopFlag::Use use(&flag);
    StopAfter keeper(3, state, flag);
    try {
      found.result = compute(&keeper);
      return found;
    } catch (const Stopped&) {
      REQUIRE(!keeper.kept().empty());
      state = keeper.kept();
    }
  }
}

template <class T>
struct RepeatedFound {
  Buffer<double> queries;
  std::vector<double> likelihood;
};

template <class T>
RepeatedFound<T> repeated(const Problem<T>& problem, Scheme scheme, Index iterations,
                          StateKeeper* keeper) {
  ScoreRecipe recipe;
  recipe.energy = &gaussian_energy();
  HeadArrays<T> head;
  head.queries = problem.q().rows;
  head.keys = problem.k().rows;
  head.q = problem.q();
  head.k = problem.k();
  SchemeOptions options = fixed(scheme);
  options.keeper = keeper;
  Repetition repetition{iterations};
  repetition.estimates_variance = scheme == Scheme::dnas;
  const RepeatedScores<T> scores(recipe, head, options, repetition, false, 2);
  const Attention last = attend<T>(scores.scores(), fixed(scheme), {}, 1);
  return {scores.queries(), scores.log_likelihood(last)};
}

}  // namespace

TEST_CASE_TEMPLATE("stopped iterations of sinkhorn go on", T, float, double) {
  Random random(722);
  for (const double spread : {0.5, 6.0, 60.0}) {
    ProblemOptions options;
    options.queries = 120;
    options.keys = 90;
    options.spread = spread;
    const Problem<T> problem(options, random);
    SchemeOptions until = fixed(Scheme::sinkhorn);
    until.stopping.iterations = 40;
    until.stopping.tolerance = 1e-6;
    SchemeOptions exactly = fixed(Scheme::sinkhorn);
    exactly.stopping.iterations = 23;
    for (SchemeOptions scheme : {until, exactly}) {
      CAPTURE(spread);
      const Run<T> whole = run_divided(problem, scheme, 2);
      const auto found = in_pieces([&](StateKeeper* keeper) {
        scheme.keeper = keeper;
        return run_divided(problem, scheme, 2);
      });
      CHECK(same_run(found.result, whole));
      if (whole.attention.summary.iterations > 9) CHECK(found.stops > 1);
    }
  }
}

TEST_CASE_TEMPLATE("stopped em and mean shift go on", T, float, double) {
  Random random(723);
  for (const Scheme scheme : {Scheme::dnas, Scheme::unas}) {
    for (const Index iterations : {1, 2, 17}) {
      ProblemOptions options;
      options.queries = 33;
      options.keys = 140;
      options.depth = options.key_depth = 5;
      const Problem<T> problem(options, random);
      const auto compute = [&](StateKeeper* keeper) {
        return repeated(problem, scheme, iterations, keeper);
      };
      const RepeatedFound<T> whole = compute(nullptr);
      const auto found = in_pieces(compute);
      CAPTURE(iterations);
      CHECK(found.stops == (iterations == 17 ? 5 : 0));
      CHECK(same_bits(found.result.queries.data(), whole.queries.data(), 33 * 5));
      CHECK(same_bits(found.result.likelihood, whole.likelihood));
      CHECK(std::ssize(whole.likelihood) == iterations);
    }
  }
}

TEST_CASE("a state of another size is refused") {
  std::atomic<bool> flag{false};
  double number = 1;
  for (const std::size_t size : {std::size_t{7}, std::size_t{9}}) {
    StopAfter keeper(9, std::vector<std::byte>(size), flag);
    KeptState state(
        &keeper, [&](const auto& visit) { visit(std::as_writable_bytes(std::span(&number, 1))); });
    CHECK_THROWS_AS(state.take(), Error);
  }
  StopAfter keeper(9, {}, flag);
  KeptState state(&keeper,
                  [&](const auto& visit) { visit(std::as_writable_bytes(std::span(&number, 1))); });
  CHECK_FALSE(state.take());
  CHECK_FALSE(KeptState(nullptr, {}).take());
}
