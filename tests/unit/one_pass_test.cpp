// Output only, in one pass by column panels, against the reference at awkward sizes.

#include "pass/one_pass.hpp"

#include <doctest/doctest.h>

#include "scheme_check.hpp"
#include "tile_oracle.hpp"

using namespace attn;
using namespace attn::testing;

namespace {

ProblemOptions shaped(Index queries, Index keys, double spread) {
  ProblemOptions options;
  options.queries = queries;
  options.keys = keys;
  options.depth = 5;
  options.v_head_dim = 3;
  options.spread = spread;
  return options;
}

// Checks the output and potentials of a mixture if no other result is requested.
template <class T>
void check_output(const Problem<T>& problem, const SchemeOptions& options) {
  const auto s = problem.reference_scores();
  const auto want = reference::attend(s, options.scheme, options.hybrid, 1);
  const auto softmax = reference::attend(s, Scheme::unas, 0, 1);
  const auto got = run_output(problem, options);
  const double bound = tolerance<T>(largest_score(s));
  CHECK(relative_error(got.out, reference::output(want.weights, problem.reference_v()).values) <=
        bound);
  check_potentials(got.attention.potentials.row, want.row, 4 * bound);
  check_potentials(got.attention.potentials.col, want.col, 4 * bound);
  check_potentials(got.attention.potentials.unas_row, softmax.row, 4 * bound);
}

}  // namespace

TEST_CASE_TEMPLATE("hnas one past a panel, near zero and not", T, float, double) {
  Random random(131);
  for (const Index queries : {1, 15, 16, 23, 97, 1025}) {
    for (const Index keys : {1, 128, 129, 257, 770}) {
      // The largest plain evaluation takes as long as all others.
      if (!long_run() && queries > 1000 && keys > 129) continue;
      for (const double spread : {0.5, 4.0}) {
        CAPTURE(queries);
        CAPTURE(keys);
        CAPTURE(spread);
        check_output(Problem<T>(shaped(queries, keys, spread), random), fixed(Scheme::hnas, 0.4));
      }
    }
  }
}

// Weights, column sums and entropies of the mixture, from exponentials of both parts.
TEST_CASE_TEMPLATE("hnas with all results, one past a block and near zero", T, float, double) {
  Random random(137);
  for (const Index queries : {1, 47, 49, 97}) {
    for (const Index keys : {1, 255, 257, 530}) {
      for (const bool masked : {false, true}) {
        ProblemOptions options = shaped(queries, keys, 0.5);
        options.mask = masked;
        if (masked) options.causal = Causal::bottom_right;
        CAPTURE(queries);
        CAPTURE(keys);
        CAPTURE(masked);
        const Problem<T> problem(options, random);
        CHECK(problem.scores().near_zero());
        check_against_reference(problem, fixed(Scheme::hnas, 0.4));
      }
    }
  }
}

TEST_CASE_TEMPLATE("hnas under masks and causality", T, float, double) {
  Random random(132);
  for (const double spread : {0.5, 4.0}) {
    for (const Causal causal : {Causal::none, Causal::top_left, Causal::bottom_right}) {
      ProblemOptions options = shaped(301, 270, spread);
      options.mask = true;
      options.causal = causal;
      check_output(Problem<T>(options, random), fixed(Scheme::hnas, 0.9));
    }
  }
}

// Some rows are so far below the others that their exponentials underflow; some columns are far
// above the panels before them.
TEST_CASE_TEMPLATE("hnas of rows and columns of different sizes", T, float, double) {
  Random random(133);
  for (const double shift : {25.0, 100.0, 5000.0}) {
    for (const bool by_row : {false, true}) {
      CAPTURE(shift);
      CAPTURE(by_row);
      ProblemOptions options = shaped(130, 1030, 1);
      (by_row ? options.row_shift : options.col_shift) = shift;
      check_output(Problem<T>(options, random), fixed(Scheme::hnas, 0.2));
    }
  }
}

// Accumulated sums are rescaled if a panel has a larger score than earlier ones.
TEST_CASE_TEMPLATE("hnas with scores that grow from panel to panel", T, float, double) {
  constexpr Index rows = 60;
  constexpr Index cols = 1100;
  Random random(134);
  for (const double growth : {0.02, 0.3, -0.02}) {
    std::vector<T> s;
    std::normal_distribution<double> normal(0, 1);
    for (Index i = 0; i < rows; ++i) {
      for (Index j = 0; j < cols; ++j) {
        s.push_back(static_cast<T>(growth * static_cast<double>(j) + normal(random)));
      }
    }
    std::vector<T> v;
    for (Index j = 0; j < cols; ++j) v.push_back(static_cast<T>(normal(random)));
    const BroadcastMatrix<T> source(s.data(), cols, 1);
    const auto energy = make_stored_energy<T>(source, rows, cols, 1);
    typename Scores<T>::Terms terms;
    terms.energy = energy.get();
    std::vector<T> out(static_cast<std::size_t>(rows));
    Output<T> output({v.data(), cols, 1}, {out.data(), rows, 1});
    const auto got = attend<T>(Scores<T>(terms), fixed(Scheme::hnas, 0.3), {&output}, 2);

    reference::Matrix exact(rows, cols, 0);
    exact.values.assign(s.begin(), s.end());
    reference::Matrix values(cols, 1, 0);
    values.values.assign(v.begin(), v.end());
    const auto want = reference::attend(exact, Scheme::hnas, 0.3, 1);
    const double bound = tolerance<T>(largest_score(exact));
    CAPTURE(growth);
    CHECK(relative_error(out, reference::output(want.weights, values).values) <= bound);
    check_potentials(got.potentials.row, want.row, 4 * bound);
    check_potentials(got.potentials.unas_row, reference::attend(exact, Scheme::unas, 0, 1).row,
                     4 * bound);
  }
}

TEST_CASE_TEMPLATE("one pass by columns on every instruction set", T, float, double) {
  attn::tile_oracle::on_every_target([] {
    Random random(135);
    for (const Scheme scheme : {Scheme::dnas, Scheme::hnas}) {
      for (const double spread : {0.5, 4.0}) {
        CAPTURE(static_cast<int>(scheme));
        CAPTURE(spread);
        check_against_reference(Problem<T>(shaped(101, 263, spread), random), fixed(scheme));
      }
    }
  });
}

TEST_CASE("one pass by columns over empty problems") {
  Random random(136);
  ProblemOptions options = shaped(7, 9, 1);
  options.key_length = 0;
  const Problem<float> problem(options, random);
  const auto run = run_output(problem, fixed(Scheme::hnas, 0.3));
  CHECK(run.out == std::vector<float>(run.out.size(), 0.0F));
  for (const double f : run.attention.potentials.unas_row)
    CHECK(f == -std::numeric_limits<double>::infinity());
  for (const double f : run.attention.potentials.row)
    CHECK(f == -std::numeric_limits<double>::infinity());
  for (const double g : run.attention.potentials.col)
    CHECK(g == -std::numeric_limits<double>::infinity());

  // No key, and no query.
  for (const bool rows : {false, true}) {
    const auto energy = make_zero_energy<float>(rows ? 3 : 0, rows ? 0 : 3);
    Scores<float>::Terms terms;
    terms.energy = energy.get();
    std::vector<float> v(3, 1.0F);
    std::vector<float> out(3, 5.0F);
    Output<float> output({v.data(), rows ? 0 : 3, 1}, {out.data(), rows ? 3 : 0, 1});
    attend<float>(Scores<float>(terms), fixed(Scheme::hnas, 0.3), {&output}, 2);
    CHECK(out == std::vector<float>(3, rows ? 0.0F : 5.0F));
  }
}

// Entropies are computed by the pass itself, with or without other observers; without, nothing is
// kept for them.
TEST_CASE_TEMPLATE("entropies of softmax", T, float, double) {
  Random random(137);
  for (int n = 0; n < repeats(60); ++n) {
    ProblemOptions options = random_options(random, n % 6 == 5 ? 700 : 150);
    if (n % 2 == 1) options = shaped(1 + n * 5, 255 + n, std::exp(random_index(random, -2, 3)));
    const Problem<T> problem(options, random);
    const auto s = problem.reference_scores();
    const auto want = reference::row_entropies(reference::attend(s, Scheme::unas, 0, 1).weights);
    const double bound = tolerance<T>(largest_score(s)) * (1 + std::log(1.0 + s.cols));
    RowEntropy<T> alone, beside;
    ColumnSums<T> sums;
    attend<T>(problem.scores(), fixed(Scheme::unas), {&alone}, 2);
    attend<T>(problem.scores(), fixed(Scheme::unas), {&sums, &beside}, 3);
    CAPTURE(n);
    CHECK(alone.values() == beside.values());
    CHECK(alone.values() == run_all(problem, fixed(Scheme::unas)).entropies);
    REQUIRE(alone.values().size() == want.size());
    for (std::size_t i = 0; i < want.size(); ++i) {
      CHECK(alone.values()[i] >= 0);
      CHECK(std::abs(alone.values()[i] - static_cast<double>(want[i])) <= bound);
    }
  }
}

// No other test would notice: missing queries are computed by a second pass.
TEST_CASE_TEMPLATE("one pass by columns completes every query with ordinary scores", T, float,
                   double) {
  Random random(138);
  std::vector<T> s;
  constexpr Index rows = 199;
  constexpr Index cols = 300;
  for (const double level : {0.0, -1000.0}) {
    s.clear();
    std::normal_distribution<double> normal(level, 3);
    for (Index n = 0; n < rows * cols; ++n) {
      const bool closed = n % cols == 7;  // a key
      s.push_back(closed ? -std::numeric_limits<T>::infinity() : static_cast<T>(normal(random)));
    }
    for (const bool bounded : {false, true}) {
      const BroadcastMatrix<T> source = bounded ? BroadcastMatrix<T>(s.data(), cols, 1, 1020)
                                                : BroadcastMatrix<T>(s.data(), cols, 1);
      const auto energy = make_stored_energy<T>(source, rows, cols, 1);
      typename Scores<T>::Terms terms;
      terms.energy = energy.get();
      const Scores<T> scores(terms);
      std::vector<double> row(rows), unas_row(rows), col(cols);
      CAPTURE(level);
      CHECK(one_pass_columns<T>(scores, row, col, {}, 2).empty());
      CHECK(one_pass_hybrid<T>(scores, 0.3, row, unas_row, col, {}, 2).empty());
    }
  }
}
