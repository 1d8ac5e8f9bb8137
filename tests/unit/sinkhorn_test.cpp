#include "sinkhorn/sinkhorn.hpp"

#include <doctest/doctest.h>

#include <cmath>

#include "log_sum.hpp"
#include "pass/one_pass.hpp"
#include "random_problem.hpp"
#include "scheme_check.hpp"
#include "sinkhorn/gibbs_kernel.hpp"

using namespace attn;
using namespace attn::testing;

namespace {

// By the formula, closed lines left out.
struct ReferenceIteration {
  reference::Matrix s;
  Vector log_a, log_b, f, g;

  void columns() {
    for (Index j = 0; j < s.cols; ++j) {
      Vector terms;
      for (Index i = 0; i < s.rows; ++i) {
        const auto at = static_cast<std::size_t>(i);
        if (f[at] != nothing && log_a[at] != nothing) terms.push_back(s(i, j) - f[at]);
      }
      set(g, log_b, j, terms);
    }
  }
  void rows() {
    for (Index i = 0; i < s.rows; ++i) {
      Vector terms;
      for (Index j = 0; j < s.cols; ++j) {
        const auto at = static_cast<std::size_t>(j);
        if (g[at] != nothing) terms.push_back(s(i, j) - g[at]);
      }
      set(f, log_a, i, terms);
    }
  }
  static void set(Vector& potential, const Vector& log_marginal, Index line, const Vector& terms) {
    const auto at = static_cast<std::size_t>(line);
    const long double sum = log_sum(terms);
    potential[at] =
        sum == nothing || log_marginal[at] == nothing ? nothing : sum - log_marginal[at];
  }
};

ProblemOptions options_of(Index queries, Index keys, double spread = 1) {
  ProblemOptions options;
  options.queries = queries;
  options.keys = keys;
  options.depth = 9;
  options.v_head_dim = 5;
  options.spread = spread;
  return options;
}

// Logarithms of positive numbers between e^-range and e^range, some of them −inf.
std::vector<double> random_marginal(Index size, double range, Random& random) {
  std::uniform_real_distribution<double> log(-range, range);
  std::vector<double> values(static_cast<std::size_t>(size));
  for (double& value : values) {
    value = chance(random, 0.1) ? -std::numeric_limits<double>::infinity() : log(random);
  }
  return values;
}

template <class T>
void check_iterations(const Problem<T>& problem, const std::vector<double>& log_a,
                      const std::vector<double>& log_b, int iterations) {
  const Scores<T>& scores = problem.scores();
  ReferenceIteration want;
  want.s = problem.reference_scores();
  const auto rows = static_cast<std::size_t>(scores.rows());
  const auto cols = static_cast<std::size_t>(scores.cols());
  want.log_a = log_a.empty() ? Vector(rows, 0) : Vector(log_a.begin(), log_a.end());
  want.log_b = log_b.empty() ? Vector(cols, 0) : Vector(log_b.begin(), log_b.end());
  want.f.assign(rows, 0);
  want.g.assign(cols, 0);
  // The rounding errors of all iterations add up in the potentials.
  const double bound = 4 * iterations * tolerance<T>(largest_score(want.s));

  SinkhornIteration<T> iteration(scores, {log_a, log_b}, 1 << 20, 2);
  std::vector<double> f(rows), g(cols), next(cols);
  iteration.start(g);
  want.columns();
  check_potentials(g, want.g, bound);
  for (int t = 0; t < iterations; ++t) {
    CAPTURE(t);
    iteration.step(g, f, next);
    want.rows();
    want.columns();
    check_potentials(f, want.f, bound);
    check_potentials(next, want.g, bound);
    g.swap(next);
  }
  KeepWeights<T> weights;
  iteration.show(g, f, {&weights});
  want.rows();
  check_potentials(f, want.f, bound);
  std::vector<long double> plan;
  for (Index i = 0; i < scores.rows(); ++i) {
    for (Index j = 0; j < scores.cols(); ++j) {
      const long double row = want.f[static_cast<std::size_t>(i)];
      const long double col = want.g[static_cast<std::size_t>(j)];
      const bool closed = row == nothing || col == nothing;
      plan.push_back(closed ? 0 : std::exp(want.s(i, j) - col - row));
    }
  }
  CHECK(relative_error(weights.values, plan) <= bound);
}

}  // namespace

TEST_CASE_TEMPLATE("Sinkhorn's iterations agree with the reference", T, float, double) {
  Random random(201);
  for (int n = 0; n < 40; ++n) {
    ProblemOptions options = random_options(random, 300);
    if (n % 4 == 1) options.spread = 5;
    const Problem<T> problem(options, random);
    const double range = n % 3;
    const auto log_a =
        n % 3 == 0 ? std::vector<double>() : random_marginal(options.queries, range, random);
    const auto log_b =
        n % 5 == 0 ? std::vector<double>() : random_marginal(options.keys, range, random);
    CAPTURE(n);
    check_iterations(problem, log_a, log_b, 4);
  }
}

TEST_CASE_TEMPLATE("Sinkhorn's iterations with marginals, of scores near zero", T, float, double) {
  Random random(205);
  for (const bool masked : {false, true}) {
    ProblemOptions options = options_of(90, 300);
    options.mask = masked;
    const Problem<T> problem(options, random);
    REQUIRE(problem.scores().near_zero());
    check_iterations(problem, random_marginal(90, 2, random), random_marginal(300, 2, random), 4);
  }
}

TEST_CASE_TEMPLATE("Sinkhorn's iterations at the edges of blocks and tiles", T, float, double) {
  Random random(202);
  for (const Index queries : {1, 2, 23, 48, 49, 97}) {
    for (const Index keys : {1, 2, 255, 256, 257, 600}) {
      for (const double spread : {1.0, 6.0}) {
        CAPTURE(queries);
        CAPTURE(keys);
        const Problem<T> problem(options_of(queries, keys, spread), random);
        check_iterations(problem, {}, {}, 3);
      }
    }
  }
}

TEST_CASE_TEMPLATE("potentials that leave the range of the kernel", T, float, double) {
  Random random(203);
  SUBCASE("marginals of very different size") {
    for (const double range : {20.0, 30.0, 60.0}) {
      const Problem<T> problem(options_of(90, 300), random);
      REQUIRE(problem.scores().near_zero());
      // Both small and large ones, so that e^g exceeds e^45 for some.
      std::vector<double> log_b(300, 0.0);
      for (std::size_t j = 0; j < log_b.size(); j += 3) log_b[j] = -2 * range;
      check_iterations(problem, {}, log_b, 4);
    }
  }
  SUBCASE("a query whose only allowed key has a very small marginal") {
    ProblemOptions options = options_of(60, 60);
    options.causal = Causal::top_left;
    const Problem<T> problem(options, random);
    std::vector<double> log_b(60, 0.0);
    log_b[0] = sizeof(T) == sizeof(float) ? -100 : -800;
    check_iterations(problem, {}, log_b, 4);
  }
  SUBCASE("marginals that cannot be met: potentials grow without bound") {
    for (const double spread : {1.0, 6.0, 12.0}) {
      for (const double large : {60.0, 300.0}) {
        const Problem<T> problem(options_of(90, 300, spread), random);
        std::vector<double> log_b(300, 0.0);
        for (std::size_t j = 0; j < log_b.size(); j += 3) log_b[j] = large;
        check_iterations(problem, {}, log_b, 5);
      }
    }
  }
  SUBCASE("scores so large that each iteration changes the potentials a lot") {
    for (const double spread : {3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 30.0, 60.0}) {
      const Problem<T> problem(options_of(70, 70, spread), random);
      REQUIRE(!problem.scores().near_zero());
      check_iterations(problem, {}, {}, 8);
    }
  }
  SUBCASE("a query that no key prefers, a key that no query prefers") {
    ProblemOptions options = options_of(130, 140);
    options.row_shift = options.col_shift = 5000;
    const Problem<T> problem(options, random);
    check_iterations(problem, {}, {}, 5);
  }
}

TEST_CASE_TEMPLATE("kept and recomputed tiles have the same bits", T, float, double) {
  Random random(204);
  for (int n = 0; n < 24; ++n) {
    ProblemOptions options = random_options(random, 400);
    if (n % 3 == 0) options.spread = 4;
    if (n % 6 == 1) options.queries = random_size(random, 1, 30);
    if (n % 4 == 2) options.keys = random_size(random, 513, 1100);  // three tiles and more
    const Problem<T> problem(options, random);
    SchemeOptions scheme = fixed(Scheme::sinkhorn, 0, 2 + n % 4);
    if (n % 4 == 3) scheme.stopping.tolerance = 1e-3;
    CAPTURE(n);
    CAPTURE(options.queries);
    CAPTURE(options.keys);
    const auto made = run_all(problem, scheme);
    const auto made_alone = run_output(problem, scheme);
    const Partition blocks = row_pass_partition(options.queries, options.keys, sizeof(T));
    const std::int64_t block = GibbsKernel<T>::bytes(blocks.panel, options.keys);
    const std::int64_t all = GibbsKernel<T>::bytes(options.queries, options.keys);
    REQUIRE(useful_attend_bytes(scheme, options.queries, options.keys, sizeof(T)) == all);
    for (const std::int64_t bytes : {block, 3 * block - 1, all - 1, all, all + 1}) {
      CAPTURE(bytes);
      scheme.kept_bytes = bytes;
      for (const int threads : {1, 3}) {
        const auto kept = run_all(problem, scheme, threads);
        CHECK(kept.out == made.out);
        CHECK(kept.weights == made.weights);
        CHECK(kept.column_sums == made.column_sums);
        CHECK(kept.entropies == made.entropies);
        CHECK(kept.attention.potentials.row == made.attention.potentials.row);
        CHECK(kept.attention.potentials.col == made.attention.potentials.col);
        const auto alone = run_output(problem, scheme, threads);
        CHECK(alone.out == made_alone.out);
        CHECK(alone.attention.potentials.row == made_alone.attention.potentials.row);
      }
    }
  }
}

TEST_CASE("kept tiles are computed once, others in every iteration") {
  // Counts the requested scores.
  class Counted final : public Energy<float> {
   public:
    Index rows() const override { return 200; }
    Index cols() const override { return 300; }
    void fill(const TileRange& range, MatrixView<float> out) const override {
      made += range.rows * range.cols;
      for (Index i = 0; i < out.rows; ++i) std::fill_n(out.row(i), out.cols, 0.25F);
    }
    double bound() const override { return 1; }
    mutable Index made = 0;
  };
  const Counted energy;
  Scores<float>::Terms terms;
  terms.energy = &energy;
  std::vector<std::uint8_t> open(300, 1);
  open.back() = 0;  // a masked key makes no difference
  const BroadcastMatrix<std::uint8_t> mask(open.data(), 0, 1);
  terms.mask = &mask;
  const Scores<float> scores(terms);
  REQUIRE(scores.near_zero());
  constexpr Index pairs = Index{200} * 300;
  const Index block = row_pass_partition(200, 300, sizeof(float)).panel * 300;
  const auto passes = [&](std::int64_t bytes) {
    energy.made = 0;
    SchemeOptions scheme = fixed(Scheme::sinkhorn, 0, 5);
    scheme.kept_bytes = bytes;
    attend<float>(scores, scheme, {}, 1);
    return energy.made;
  };
  CHECK(passes(4 * pairs) == pairs);
  // Two of several blocks.
  CHECK(passes(4 * (2 * block + 1)) == 2 * block + 6 * (pairs - 2 * block));
  CHECK(passes(4 * block - 1) == 6 * pairs);
  CHECK(passes(0) == 6 * pairs);
}

TEST_CASE("useful memory is 0 for one iteration of sinkhorn and for every other scheme") {
  SchemeOptions once = fixed(Scheme::sinkhorn, 0, 1);
  CHECK(useful_attend_bytes(once, 100, 100, 4) == 0);
  once.stopping.tolerance = 0.1;
  CHECK(useful_attend_bytes(once, 100, 100, 4) == 40000);
  CHECK(useful_attend_bytes(fixed(Scheme::dnas), 100, 100, 4) == 0);
}
