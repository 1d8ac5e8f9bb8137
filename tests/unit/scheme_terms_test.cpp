// Every scheme with every energy and every term of the scores.

#include <doctest/doctest.h>

#include "random_problem.hpp"
#include "repeats.hpp"
#include "scheme_check.hpp"

using namespace attn;
using namespace attn::testing;

namespace {

// Another energy, and terms that only some models have.
void add_terms(ProblemOptions& options, Random& random) {
  options.mechanism = all_mechanisms[random_index(random, 0, 2)];
  options.key_depth = random_size(random, 1, 130);
  options.hidden = random_size(random, 1, 130);
  options.hidden_bias = chance(random, 0.5);
  if (options.mechanism == Mechanism::bilinear && chance(random, 0.5)) options.spread = 10;
  if (chance(random, 0.4)) options.relative = chance(random, 0.5) ? Relative::t5 : Relative::alibi;
  if (chance(random, 0.4))
    options.window = Window::nearer_than(random_size(random, 1, options.keys));
  if (chance(random, 0.4)) options.key_length = random_index(random, 0, options.keys);
  if (chance(random, 0.4)) options.softcap = chance(random, 0.5) ? 50 : 3;
  options.preference = chance(random, 0.4);
}

ProblemOptions usual_sizes(Mechanism mechanism) {
  ProblemOptions options;
  options.queries = 130;
  options.keys = 97;
  options.depth = 33;
  options.key_depth = mechanism == Mechanism::product ? 33 : 17;
  options.hidden = 65;
  options.hidden_bias = true;
  options.v_head_dim = 5;
  options.mechanism = mechanism;
  return options;
}

}  // namespace

TEST_CASE_TEMPLATE("random energies and terms agree with the reference", T, float, double) {
  check_random_problems<T>(80, 101, 150, add_terms);
  check_random_problems<T>(5, 102, 700, add_terms);
}

TEST_CASE_TEMPLATE("each term by itself, under every scheme and energy", T, float, double) {
  Random random(103);
  for (int s = 0; const Scheme scheme : all_schemes) {
    int place = s++;
    for (const Mechanism mechanism : all_mechanisms) {
      ++place;
      for (int term = 0; term < 7; ++term) {
        // Short runs have each term with each scheme and with each energy.
        if (!long_run() && (term + place) % 3 != 0) continue;
        ProblemOptions options = usual_sizes(mechanism);
        if (term == 1) options.relative = Relative::t5;
        if (term == 2) options.relative = Relative::alibi;
        if (term == 3) options.window = Window::nearer_than(9);
        if (term == 4) options.key_length = 50;
        if (term == 5) options.softcap = 1.5;
        if (term == 6) options.preference = true;
        CAPTURE(term);
        CAPTURE(static_cast<int>(scheme));
        CAPTURE(static_cast<int>(mechanism));
        const Problem<T> problem(options, random);
        check_against_reference(problem, fixed(scheme));
      }
    }
  }
}

TEST_CASE_TEMPLATE("energies of size 1e4, with shifts by rows and columns", T, float, double) {
  Random random(104);
  for (const Scheme scheme : all_schemes) {
    for (const Mechanism mechanism : {Mechanism::bilinear, Mechanism::mlp}) {
      for (const bool shifted : {false, true}) {
        ProblemOptions options = usual_sizes(mechanism);
        options.scale = mechanism == Mechanism::mlp ? 600 : 2500;
        if (shifted) options.row_shift = options.col_shift = 5000;
        CAPTURE(static_cast<int>(scheme));
        CAPTURE(static_cast<int>(mechanism));
        const Problem<T> problem(options, random);
        CHECK(largest_score(problem.reference_scores()) > 5e3);
        check_against_reference(problem, fixed(scheme));
      }
    }
  }
}

TEST_CASE_TEMPLATE("a large softcap, and one far below the energies", T, float, double) {
  Random random(105);
  for (const double cap : {1e-3, 30.0, 1000.0}) {
    for (const double scale : {1.0, 300.0}) {
      ProblemOptions options = usual_sizes(Mechanism::product);
      options.scale = scale;
      options.softcap = cap;
      CAPTURE(cap);
      CAPTURE(scale);
      const Problem<T> problem(options, random);
      check_against_reference(problem, fixed(Scheme::dnas));
    }
  }
}

TEST_CASE_TEMPLATE("unas with a preference is FD (17)", T, float, double) {
  Random random(106);
  for (int n = 0; n < repeats(20); ++n) {
    ProblemOptions options;
    options.queries = random_size(random, 1, 90);
    options.keys = random_size(random, 1, 90);
    options.depth = random_size(random, 1, 40);
    options.energy = EnergyKind::dot;
    options.scale = 0.5;  // α
    options.preference = true;
    const Problem<T> problem(options, random);
    auto terms = problem.reference_terms();
    const auto preference = terms.preference;
    terms.preference = {};
    const auto want = reference::fenchel_weights(
        reference::scores(problem.reference_energies(), terms), preference);
    const auto run = run_all(problem, fixed(Scheme::unas));
    CHECK(relative_error(run.weights, want.values) <=
          tolerance<T>(largest_score(problem.reference_scores())));
  }
}

TEST_CASE("dnas' bound on column sums holds for every energy and term") {
  Random random(108);
  for (int n = 0; n < repeats(60); ++n) {
    ProblemOptions options = usual_sizes(all_mechanisms[n % 3]);
    options.queries = random_size(random, 1, 120);
    options.keys = random_size(random, 1, 120);
    options.scale = std::exp(std::uniform_real_distribution<double>(-2, 5)(random));
    options.relative = n % 2 == 0 ? Relative::alibi : Relative::t5;
    options.preference = chance(random, 0.5);
    options.mask = chance(random, 0.5);
    if (chance(random, 0.5))
      options.window = Window::nearer_than(random_size(random, 1, options.keys));
    if (chance(random, 0.5)) options.key_length = random_index(random, 0, options.keys);
    const Problem<double> problem(options, random);
    const auto run = run_all(problem, fixed(Scheme::dnas));
    const AllowedCounts& allowed = run.attention.allowed;
    for (std::size_t j = 0; j < run.column_sums.size(); ++j) {
      if (allowed.queries_of_key[j] == 0) {
        CHECK(run.column_sums[j] == 0);
      } else {
        CHECK(run.column_sums[j] >= (1 - 1e-6) / static_cast<double>(allowed.most_keys()));
      }
    }
  }
}

TEST_CASE_TEMPLATE("the number of threads does not change the bits of precomputed energies", T,
                   float, double) {
  Random random(107);
  const Index length = 700;
  std::vector<T> q(static_cast<std::size_t>(length * 30));
  std::normal_distribution<double> normal;
  for (T& x : q) x = static_cast<T>(normal(random));
  const MatrixView<const T> rows(q.data(), length, 30);
  const MatrixView<const T> w(q.data(), 30, 30);
  const MatrixView<const T> w1(q.data(), 20, 60);
  const std::span<const T> w2(q.data(), 20);
  const auto bits = [&](int threads) {
    std::vector<T> all;
    for (const auto& energy : {make_bilinear_energy<T>(rows, rows, w, 1, threads),
                               make_mlp_energy<T>(rows, rows, {w1, w2, w2}, 1, threads)}) {
      std::vector<T> out(static_cast<std::size_t>(length * length));
      energy->fill({0, length, 0, length}, {out.data(), length, length});
      all.insert(all.end(), out.begin(), out.end());
    }
    return all;
  };
  const auto one = bits(1);
  CHECK(bits(2) == one);
  CHECK(bits(5) == one);
}
