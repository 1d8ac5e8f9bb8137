#include "scheme/scheme.hpp"

#include <doctest/doctest.h>

#include "random_problem.hpp"
#include "repeats.hpp"
#include "scheme_check.hpp"
#include "stats/observers.hpp"
#include "weights_observer.hpp"

using namespace attn;
using namespace attn::testing;

TEST_CASE_TEMPLATE("random problems agree with the reference", T, float, double) {
  const auto as_they_are = [](ProblemOptions&, Random&) {};
  check_random_problems<T>(60, 1, 150, as_they_are);
  check_random_problems<T>(8, 2, 700, as_they_are);
}

TEST_CASE_TEMPLATE("scores of size 1e4", T, float, double) {
  Random random(3);
  for (const Scheme scheme : all_schemes) {
    for (const EnergyKind energy : all_energies) {
      ProblemOptions options;
      options.queries = 130;
      options.keys = 97;
      options.depth = 64;
      options.v_head_dim = 5;
      options.energy = energy;
      options.spread = energy == EnergyKind::scaled_dot ? 45 : 17;
      CAPTURE(static_cast<int>(scheme));
      CAPTURE(static_cast<int>(energy));
      const Problem<T> problem(options, random);
      CHECK(largest_score(problem.reference_scores()) > 5e3);
      check_against_reference(problem, fixed(scheme));
    }
  }
}

TEST_CASE_TEMPLATE("gaussian energy far away from the origin", T, float, double) {
  Random random(4);
  for (const Scheme scheme : all_schemes) {
    ProblemOptions options;
    options.queries = 65;
    options.keys = 129;
    options.depth = 7;
    options.v_head_dim = 3;
    options.energy = EnergyKind::gaussian;
    options.offset = 100;
    const Problem<T> problem(options, random);
    check_against_reference(problem, fixed(scheme));
  }
}

TEST_CASE_TEMPLATE("one row past a panel and one key past a tile", T, float, double) {
  Random random(5);
  for (const Index queries : {1, 63, 64, 65, 127, 128, 129, 257}) {
    for (const Index keys : {1, 511, 512, 513}) {
      ProblemOptions options;
      options.queries = queries;
      options.keys = keys;
      options.depth = 3;
      options.v_head_dim = 2;
      const Problem<T> problem(options, random);
      CAPTURE(queries);
      CAPTURE(keys);
      check_against_reference(problem, fixed(Scheme::dnas));
    }
  }
}

TEST_CASE_TEMPLATE("the number of threads does not change a bit", T, float, double) {
  Random random(6);
  ProblemOptions options;
  options.queries = 700;
  options.keys = 650;
  options.depth = 20;
  options.v_head_dim = 9;
  options.mask = true;
  const Problem<T> problem(options, random);
  for (const Scheme scheme : all_schemes) {
    const auto one = run_all(problem, fixed(scheme), 1);
    for (const int threads : {2, 3, 7}) {
      const auto many = run_all(problem, fixed(scheme), threads);
      CHECK(many.out == one.out);
      CHECK(many.column_sums == one.column_sums);
      CHECK(many.entropies == one.entropies);
      CHECK(many.attention.potentials.row == one.attention.potentials.row);
      CHECK(many.attention.potentials.col == one.attention.potentials.col);
    }
  }
}

TEST_CASE_TEMPLATE("identities between the schemes", T, float, double) {
  Random random(7);
  ProblemOptions options;
  options.queries = 200;
  options.keys = 200;
  options.depth = 16;
  options.v_head_dim = 4;
  const Problem<T> problem(options, random);
  const auto unas = run_all(problem, fixed(Scheme::unas));
  const auto dnas = run_all(problem, fixed(Scheme::dnas));

  SUBCASE("dnas is the first iteration of sinkhorn, bit for bit") {
    const auto sinkhorn = run_all(problem, fixed(Scheme::sinkhorn, 0, 1));
    CHECK(sinkhorn.out == dnas.out);
    CHECK(sinkhorn.weights == dnas.weights);
    CHECK(sinkhorn.column_sums == dnas.column_sums);
    CHECK(sinkhorn.attention.potentials.row == dnas.attention.potentials.row);
    CHECK(sinkhorn.attention.potentials.col == dnas.attention.potentials.col);
  }
  SUBCASE("hnas has unas and dnas at its ends, bit for bit") {
    CHECK(run_all(problem, fixed(Scheme::hnas, 0)).weights == unas.weights);
    CHECK(run_all(problem, fixed(Scheme::hnas, 1)).weights == dnas.weights);
  }
  SUBCASE("hnas is the mixture of its parts") {
    const auto hnas = run_all(problem, fixed(Scheme::hnas, 0.25));
    std::vector<double> mixed(unas.weights.size());
    for (std::size_t n = 0; n < mixed.size(); ++n) {
      mixed[n] =
          0.25 * static_cast<double>(dnas.weights[n]) + 0.75 * static_cast<double>(unas.weights[n]);
    }
    CHECK(relative_error(hnas.weights, mixed) <= tolerance<T>(0));
  }
  SUBCASE("a shift per key does not change dnas, and a shift per query changes nothing") {
    // Added to the scores as bias: weights agree to the rounding of the shifted scores.
    Random again(7);
    ProblemOptions shifted = options;
    shifted.row_shift = 50;
    const Problem<T> rows(shifted, again);
    CHECK(relative_error(run_all(rows, fixed(Scheme::unas)).weights, unas.weights) <=
          tolerance<T>(60));
  }
}

TEST_CASE("one iteration of sinkhorn with unequal lengths gives dnas' weights") {
  Random random(8);
  ProblemOptions options;
  options.queries = 90;
  options.keys = 140;
  options.depth = 8;
  options.mask = true;
  const Problem<double> problem(options, random);
  const auto dnas = run_all(problem, fixed(Scheme::dnas));
  const auto sinkhorn = run_all(problem, fixed(Scheme::sinkhorn, 0, 1));
  CHECK(relative_error(sinkhorn.weights, dnas.weights) <= 1e-14);
}

TEST_CASE_TEMPLATE("sinkhorn with a tolerance meets both marginals", T, float, double) {
  Random random(9);
  for (const Index keys : {70, 110}) {
    ProblemOptions options;
    options.queries = 110;
    options.keys = keys;
    options.depth = 8;
    const Problem<T> problem(options, random);
    SchemeOptions scheme;
    scheme.scheme = Scheme::sinkhorn;
    const auto run = run_all(problem, scheme);
    const double usual = sizeof(T) == sizeof(float) ? 1e-6 : 1e-10;
    CHECK(run.attention.summary.status == SolveStatus::converged);
    CHECK(run.attention.summary.column_error <= usual);
    double error = 0;
    for (const double sum : run.column_sums) {
      error += std::abs(sum - 110.0 / static_cast<double>(keys));
    }
    // In float32 the weights themselves have errors of some 1e-7 each, at worst all of one sign in
    // a column.
    CHECK(error / 110 <= usual + 10 * std::numeric_limits<T>::epsilon());

    scheme.stopping.iterations = 2;
    scheme.stopping.tolerance = usual;
    const auto hurried = run_all(problem, scheme);
    CHECK(hurried.attention.summary.status == SolveStatus::not_converged);
    CHECK(hurried.attention.summary.iterations == 2);
    CHECK(hurried.attention.summary.column_error > usual);
  }
}

TEST_CASE("under a square causal mask sinkhorn converges to the identity as 1/T and reports it") {
  Random random(10);
  ProblemOptions options;
  options.queries = 40;
  options.keys = 40;
  options.depth = 4;
  options.causal = Causal::top_left;
  const Problem<double> problem(options, random);
  SchemeOptions scheme;
  scheme.scheme = Scheme::sinkhorn;
  scheme.stopping.iterations = 200;
  scheme.stopping.tolerance = 1e-10;
  const auto early = run_all(problem, scheme);
  CHECK(early.attention.summary.status == SolveStatus::not_converged);
  scheme.stopping.iterations = 400;
  const auto late = run_all(problem, scheme);
  const double ratio = early.attention.summary.column_error / late.attention.summary.column_error;
  CHECK(ratio > 1.5);
  CHECK(ratio < 2.5);
}

TEST_CASE("dnas' column sums are at least 1/Lk, and come within 1% of it") {
  Random random(11);
  for (int n = 0; n < repeats(40); ++n) {
    ProblemOptions options;
    options.queries = random_size(random, 1, 120);
    options.keys = random_size(random, 1, 120);
    options.depth = random_size(random, 1, 20);
    options.spread = std::exp(std::uniform_real_distribution<double>(-2, 4)(random));
    options.energy = all_energies[n % 3];
    const Problem<double> problem(options, random);
    const auto run = run_all(problem, fixed(Scheme::dnas));
    for (const double sum : run.column_sums) {
      CHECK(sum >= (1 - 1e-6) / static_cast<double>(options.keys));
    }
  }
  // One query prefers all keys equally, the others all but the first: with only one query for key
  // 0, its column is normalised to 1 there, and that row distributes its weight evenly.
  constexpr Index keys = 100;
  std::vector<double> s(static_cast<std::size_t>(2 * keys), 0.0);
  for (Index j = 0; j < keys; ++j) s[static_cast<std::size_t>(keys + j)] = -1e3;
  const BroadcastMatrix<double> source(s.data(), keys, 1, 1e3);
  const auto energy = make_stored_energy<double>(source, 2, keys, 1);
  Scores<double>::Terms terms;
  terms.energy = energy.get();
  const Scores<double> scores(terms);
  SUBCASE("all keys prefer the same query: each gets 1/Lk from it") {
    // No key prefers the second query, but it must spend its weight: on key 1.
    s[static_cast<std::size_t>(keys + 1)] = -1e3 + 50;
    ColumnSums<double> sums;
    attend<double>(scores, fixed(Scheme::dnas), {&sums}, 1);
    CHECK(sums.values()[0] >= (1 - 1e-6) / keys);
    CHECK(sums.values()[0] <= 1.01 / keys);
  }
}

TEST_CASE("under unas a column sum can be arbitrarily small") {
  const std::vector<double> s = {0, 0, -60, -60};  // key 1 is 60 below for both queries
  const BroadcastMatrix<double> source(s.data(), 0, 2, 60);
  const auto energy = make_stored_energy<double>(source, 2, 2, 1);
  Scores<double>::Terms terms;
  terms.energy = energy.get();
  ColumnSums<double> sums;
  attend<double>(Scores<double>(terms), fixed(Scheme::unas), {&sums}, 1);
  CHECK(sums.values()[1] == doctest::Approx(2 * std::exp(-60.0)).epsilon(1e-12));
}

TEST_CASE_TEMPLATE("weights computed again from their potentials", T, float, double) {
  Random random(12);
  ProblemOptions options;
  options.queries = 150;
  options.keys = 90;
  options.depth = 12;
  options.mask = true;
  options.row_shift = 5000;
  const Problem<T> problem(options, random);
  const double bound = tolerance<T>(largest_score(problem.reference_scores()));
  for (const Scheme scheme : all_schemes) {
    auto run = run_all(problem, fixed(scheme));
    KeepWeights<T> again;
    show_weights<T>(problem.scores(), run.attention.potentials, 0.3, {&again}, 2);
    CHECK(relative_error(again.values, run.weights) <= bound);
  }
}

// Weights that are not yet normalised may be e^30 or e^-60: the factors of these must not matter.
TEST_CASE_TEMPLATE("out is linear in values of any size, bit for bit", T, float, double) {
  Random random(17);
  constexpr int largest = std::numeric_limits<T>::max_exponent;
  for (const Scheme scheme : all_schemes) {
    for (const double spread : {0.3, 4.0}) {
      for (const Index queries : {3, 60}) {
        ProblemOptions options;
        options.queries = queries;
        options.keys = 301;
        options.depth = 7;
        options.v_head_dim = 5;
        options.energy = EnergyKind::dot;
        options.spread = spread;
        options.offset = spread < 1 ? 1.8 : 0;
        options.row_shift = spread < 1 ? 0 : 40;
        const Problem<T> problem(options, random);
        const auto plain = run_output(problem, fixed(scheme, 0.3, 1));
        for (const int exponent : {-largest + 30, -60, 60, largest - 4}) {
          std::vector<T> v;
          for (Index j = 0; j < options.keys; ++j) {
            for (Index c = 0; c < options.v_head_dim; ++c) {
              v.push_back(std::ldexp(problem.v()(j, c), exponent));
            }
          }
          std::vector<T> out(plain.out.size());
          Output<T> output({v.data(), options.keys, options.v_head_dim},
                           {out.data(), queries, options.v_head_dim});
          attend<T>(problem.scores(), fixed(scheme, 0.3, 1), {&output}, 2);
          // Up to a few roundings of the smallest numbers, which lose bits if v is as small.
          bool same = true;
          for (std::size_t n = 0; n < out.size(); ++n) {
            const T want = std::ldexp(plain.out[n], exponent);
            same = same && std::abs(out[n] - want) <= 4 * std::numeric_limits<T>::denorm_min();
          }
          CAPTURE(static_cast<int>(scheme));
          CAPTURE(spread);
          CAPTURE(queries);
          CAPTURE(exponent);
          CHECK(same);
        }
      }
    }
  }
}
