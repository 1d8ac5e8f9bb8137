#include "scheme/gradient.hpp"

#include <doctest/doctest.h>

#include <vector>

#include "gradient_check.hpp"
#include "long_run.hpp"
#include "random_problem.hpp"
#include "repeats.hpp"

using namespace attn;
using namespace attn::testing;

namespace {

ProblemOptions random_gradient_options(Random& random) {
  ProblemOptions options;
  options.queries = random_size(random, 1, 300);
  options.keys = random_size(random, 1, 150);
  options.depth = random_size(random, 1, 20);
  options.v_head_dim = random_size(random, 1, 20);
  options.energy = static_cast<EnergyKind>(random_index(random, 0, 2));
  options.scale = chance(random, 0.5) ? 1 : 0.7;
  options.offset = chance(random, 0.3) ? 3 : 0;
  options.bias = chance(random, 0.3);
  options.mask = chance(random, 0.4);
  options.causal = static_cast<Causal>(random_index(random, 0, 2));
  if (chance(random, 0.3)) options.window = Window::nearer_than(random_index(random, 1, 60));
  if (chance(random, 0.3)) options.key_length = random_index(random, 0, options.keys);
  if (chance(random, 0.3)) options.softcap = 2.0;
  options.preference = chance(random, 0.2);
  options.relative = static_cast<Relative>(random_index(random, 0, 2));
  return options;
}

}  // namespace

TEST_CASE_TEMPLATE("gradients of random problems", T, float, double) {
  Random random(201);
  for (int n = 0; n < repeats(36); ++n) {
    const Problem<T> problem(random_gradient_options(random), random);
    for (const Scheme scheme : schemes_with_fenchel) {
      check_gradients(problem, fixed(scheme, n % 5 * 0.25, 1 + n % 4), random);
    }
  }
}

// Above the size limit, where δ is computed from the output.
TEST_CASE_TEMPLATE("gradients of larger random problems", T, float, double) {
  Random random(209);
  for (int n = 0; n < (long_run() ? 4 : 2); ++n) {
    ProblemOptions options = random_gradient_options(random);
    options.queries = random_index(random, 200, 300);
    options.keys = random_index(random, 400, 500);
    options.key_length.reset();
    const Problem<T> problem(options, random);
    for (const Scheme scheme : schemes_with_fenchel) {
      check_gradients(problem, fixed(scheme, n % 3 * 0.4, 1 + n % 3), random);
    }
  }
}

// A constant offset of all values cancels from dS before it costs digits.
TEST_CASE_TEMPLATE("gradients of values far from the origin", T, float, double) {
  Random random(211);
  for (const double offset : {10.0, -1000.0}) {
    ProblemOptions options;
    options.value_offset = offset;
    options.depth = 16;
    options.v_head_dim = 12;
    for (const Index length : {40, 270}) {  // below and above the size limit
      options.queries = length;
      options.keys = length + 3;
      options.causal = Causal::bottom_right;
      const Problem<T> problem(options, random);
      for (const Scheme scheme : schemes_with_fenchel)
        check_gradients(problem, fixed(scheme, 0.3, 2), random);
    }
  }
}

// Softmax of small scores uses exp(s) as weights and scales dO instead, unless dO has an extreme
// size.
TEST_CASE_TEMPLATE("gradients of softmax by plain exponentials", T, float, double) {
  Random random(210);
  ProblemOptions options;
  options.queries = 300;
  options.keys = 257;
  options.depth = 8;
  options.v_head_dim = 9;
  options.scale = 0.5;
  options.causal = Causal::bottom_right;
  for (const bool mask : {false, true}) {
    options.mask = mask;
    if (mask) options.softcap = 2.0;
    const Problem<T> problem(options, random);
    REQUIRE(problem.scores().near_zero());
    for (const Scheme scheme : {Scheme::unas, Scheme::fenchel}) {
      check_gradients(problem, fixed(scheme), random);
      auto grad_out = random_matrix(options.queries, options.v_head_dim, random);
      const auto usual = gradients_of(problem, fixed(scheme), grad_out);
      const double factor = std::ldexp(1, 40);
      for (long double& x : grad_out.values) x *= factor;
      auto large = gradients_of(problem, fixed(scheme), grad_out);
      const double bound = 2 * gradient_tolerance<T>(30);
      for (auto* values : {&large.q, &large.k, &large.v}) {
        for (T& x : *values) x = static_cast<T>(x / factor);
      }
      CHECK(gradient_error(large.q, usual.q, 0) <= bound);
      CHECK(gradient_error(large.k, usual.k, 0) <= bound);
      CHECK(gradient_error(large.v, usual.v, 0) <= bound);
      CHECK(large.q != usual.q);  // it did use the other method
    }
  }
}

TEST_CASE_TEMPLATE("gradients through bilinear and mlp energies", T, float, double) {
  Random random(202);
  for (int n = 0; n < repeats(16); ++n) {
    ProblemOptions options = random_gradient_options(random);
    options.mechanism = n % 2 == 0 ? Mechanism::bilinear : Mechanism::mlp;
    options.key_depth = random_size(random, 1, 20);
    options.hidden = random_size(random, 1, 9);
    options.hidden_bias = chance(random, 0.5);
    const Problem<T> problem(options, random);
    for (const Scheme scheme : schemes_with_fenchel)
      check_gradients(problem, fixed(scheme), random);
  }
}

TEST_CASE_TEMPLATE("gradients at the edges of tiles and panels", T, float, double) {
  Random random(203);
  const std::vector<Scheme> schemes = {Scheme::unas, Scheme::dnas, Scheme::hnas};
  std::size_t place = 0;
  for (const Index queries : {1, 2, 255, 256, 257, 513}) {
    ++place;
    for (const Index keys : {1, 2, 64, 65, 129, 257}) {
      ProblemOptions options;
      options.queries = queries;
      options.keys = keys;
      options.depth = 3;
      options.v_head_dim = 5;
      const Problem<T> problem(options, random);
      // Short runs have each scheme with every length.
      const Scheme chosen = schemes[++place % 3];
      for (const Scheme scheme : long_run() ? schemes : std::vector{chosen}) {
        check_gradients(problem, fixed(scheme), random);
      }
    }
  }
}

// MATHEMATICS.md §2: weights that underflow before they are divided.
TEST_CASE_TEMPLATE("gradients when one row lies far below the others", T, float, double) {
  Random random(204);
  ProblemOptions options;
  options.queries = 70;
  options.keys = 40;
  options.depth = 4;
  options.v_head_dim = 3;
  options.row_shift = 2500;
  const Problem<T> problem(options, random);
  for (const Scheme scheme : schemes_with_fenchel) check_gradients(problem, fixed(scheme), random);
}

TEST_CASE_TEMPLATE("gradients do not depend on the number of threads", T, float, double) {
  Random random(205);
  ProblemOptions options;
  options.queries = 300;
  options.keys = 1300;
  options.depth = 7;
  options.v_head_dim = 6;
  options.mask = true;
  for (const auto mechanism : {Mechanism::product, Mechanism::bilinear, Mechanism::mlp}) {
    options.mechanism = mechanism;
    options.energy = EnergyKind::gaussian;
    options.key_depth = 7;
    options.hidden = 3;
    options.relative = Relative::t5;
    const Problem<T> problem(options, random);
    const auto grad_out = random_matrix(options.queries, options.v_head_dim, random);
    for (const Scheme scheme : schemes_with_fenchel) {
      const auto one = gradients_of(problem, fixed(scheme), grad_out, 1);
      for (const int threads : sanitized ? std::vector{3} : std::vector{2, 3}) {
        const auto more = gradients_of(problem, fixed(scheme), grad_out, threads);
        CHECK(more.q == one.q);
        CHECK(more.k == one.k);
        CHECK(more.v == one.v);
        CHECK(more.w == one.w);
        CHECK(more.w2 == one.w2);
        CHECK(more.b1 == one.b1);
        CHECK(more.scores == one.scores);
        CHECK(more.by_query == one.by_query);
        CHECK(more.by_key == one.by_key);
        CHECK(more.table == one.table);
        CHECK(more.hybrid == one.hybrid);
      }
    }
  }
}

TEST_CASE_TEMPLATE("identities of gradients", T, float, double) {
  Random random(206);
  ProblemOptions options;
  options.queries = 90;
  options.keys = 130;
  options.depth = 6;
  options.v_head_dim = 5;
  options.mask = true;
  const Problem<T> problem(options, random);
  const auto grad_out = random_matrix(options.queries, options.v_head_dim, random);
  const double bound = 100 * std::numeric_limits<T>::epsilon();
  // A constant added to a row changes nothing; under dnas, neither does one added to a column.
  for (const Scheme scheme : schemes_with_fenchel) {
    const auto found = gradients_of(problem, fixed(scheme), grad_out);
    CHECK(largest_entry(found.scores) > 1e-3);
    if (scheme != Scheme::dnas && scheme != Scheme::sinkhorn && scheme != Scheme::hnas) {
      CHECK(largest_entry(found.by_query) <= bound);
    }
    if (scheme == Scheme::dnas || scheme == Scheme::sinkhorn) {
      CHECK(largest_entry(found.by_key) <= bound);
    }
  }
  // With one query, dnas is uniform for any scores.
  options.queries = 1;
  options.mask = false;
  const Problem<T> single(options, random);
  const auto found =
      gradients_of(single, fixed(Scheme::dnas), random_matrix(1, options.v_head_dim, random));
  CHECK(largest_entry(found.q) <= bound);
  CHECK(largest_entry(found.k) <= bound);
  CHECK(largest_entry(found.v) > 1e-3);
}

TEST_CASE_TEMPLATE("no allowed pairs, and empty problems", T, float, double) {
  Random random(207);
  ProblemOptions options;
  options.queries = 5;
  options.keys = 4;
  options.depth = 3;
  options.v_head_dim = 2;
  options.key_length = 0;
  const Problem<T> closed(options, random);
  for (const Scheme scheme : schemes_with_fenchel) {
    const auto found = gradients_of(closed, fixed(scheme), random_matrix(5, 2, random));
    CHECK(largest_entry(found.q) == 0);
    CHECK(largest_entry(found.k) == 0);
    CHECK(largest_entry(found.v) == 0);
    CHECK(largest_entry(found.scores) == 0);
    CHECK(found.hybrid == 0);
  }
}

TEST_CASE_TEMPLATE("gradients of only values or only queries", T, float, double) {
  Random random(208);
  ProblemOptions options;
  options.queries = 40;
  options.keys = 30;
  options.depth = 3;
  options.v_head_dim = 2;
  const Problem<T> problem(options, random);
  const auto grad_out = random_matrix(40, 2, random);
  const std::vector<T> narrow(grad_out.values.begin(), grad_out.values.end());
  for (const Scheme scheme : schemes_with_fenchel) {
    const auto all = gradients_of(problem, fixed(scheme), grad_out);
    std::vector<T> out(80);
    Output<T> output(problem.v(), {out.data(), 40, 2});
    const Attention attention = attend<T>(problem.scores(), fixed(scheme), {&output}, 1);
    std::vector<T> values(60);
    GradientTargets<T> targets;
    targets.v = {values.data(), 30, 2};
    Forward<T> forward;
    forward.scores = &problem.scores();
    forward.options = fixed(scheme);
    forward.attention = &attention;
    forward.v = problem.v();
    forward.out = {out.data(), 40, 2};
    forward.grad_out = {narrow.data(), 40, 2};
    differentiate(forward, targets, 1);
    CHECK(values == all.v);
    // Gradients of only the queries need no gradients of values.
    std::vector<T> of_queries(120);
    targets.v.data = nullptr;
    const auto energy = make_product_gradient<T>(EnergyKind::scaled_dot, problem.q(), problem.k(),
                                                 1, {of_queries.data(), 40, 3}, {});
    targets.energies = {energy.get()};
    differentiate(forward, targets, 1);
    CHECK(of_queries == all.q);
  }
}
