#include "pass/pass.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "infinity.hpp"
#include "random_problem.hpp"
#include "same_bits.hpp"
#include "stats/observers.hpp"
#include "tile_recorder.hpp"

using namespace attn;
using namespace attn::testing;

namespace {

using LongDoubles = std::vector<long double>;

// Ready-made random scores, some of them −inf, including whole rows and columns.
template <class T>
class RandomScores {
 public:
  RandomScores(Index rows, Index cols, Causal causal, Random& random)
      : values_(static_cast<std::size_t>(rows * cols)),
        source_(values_.data(), cols, 1),
        energy_(make_stored_energy<T>(source_, rows, cols, 1)),
        exact(rows, cols, -infinity) {
    std::normal_distribution<double> normal(0, 3);
    std::vector<bool> closed_row, closed_col;
    for (Index i = 0; i < rows; ++i) closed_row.push_back(chance(random, 0.05));
    for (Index j = 0; j < cols; ++j) closed_col.push_back(chance(random, 0.05));
    const double hole = chance(random, 0.5) ? 0.3 : 0;
    // Potentials are then large as well: in float32 they would lose the digits of the weights.
    const double shift = chance(random, 0.4) ? 5000 : 0;
    for (Index i = 0; i < rows; ++i) {
      for (Index j = 0; j < cols; ++j) {
        const bool closed = closed_row[static_cast<std::size_t>(i)] ||
                            closed_col[static_cast<std::size_t>(j)] || chance(random, hole);
        const T value = static_cast<T>(closed ? -infinity : shift + normal(random));
        values_[static_cast<std::size_t>(i * cols + j)] = value;
        const Index ahead = causal == Causal::bottom_right ? cols - rows : 0;
        if (causal == Causal::none || j <= i + ahead) exact(i, j) = value;
      }
    }
    typename Scores<T>::Terms terms;
    terms.energy = energy_.get();
    terms.band = causal_band(causal, rows, cols);
    scores.emplace(terms);
  }
  RandomScores(const RandomScores&) = delete;
  RandomScores& operator=(const RandomScores&) = delete;

 private:
  std::vector<T> values_;
  BroadcastMatrix<T> source_;
  std::unique_ptr<Energy<T>> energy_;

 public:
  std::optional<Scores<T>> scores;
  reference::Matrix exact;
};

// a − b, −inf if either is: a masked row or column.
long double less(long double a, long double b) {
  return std::isinf(a) || std::isinf(b) ? -infinity : a - b;
}

// log Σ exp(s − by) along rows or columns, less the logarithm of the marginals.
LongDoubles log_sums(const reference::Matrix& s, bool along_rows, const LongDoubles& by,
                     const LongDoubles& log_marginal) {
  const Index lines = along_rows ? s.rows : s.cols;
  const Index length = along_rows ? s.cols : s.rows;
  LongDoubles result(static_cast<std::size_t>(lines), -infinity);
  for (Index line = 0; line < lines; ++line) {
    LongDoubles terms;
    for (Index at = 0; at < length; ++at) {
      const long double value = along_rows ? s(line, at) : s(at, line);
      terms.push_back(less(value, by[static_cast<std::size_t>(at)]));
    }
    long double most = -infinity;
    for (const long double term : terms) most = std::max(most, term);
    if (std::isinf(most)) continue;
    long double sum = 0;
    for (const long double term : terms) sum += std::exp(term - most);
    const auto n = static_cast<std::size_t>(line);
    result[n] = less(most + std::log(sum), log_marginal[n]);
  }
  return result;
}

void add_weights(LongDoubles& weights, double coefficient, const reference::Matrix& s,
                 const LongDoubles& f, const LongDoubles& g) {
  for (Index i = 0; i < s.rows; ++i) {
    for (Index j = 0; j < s.cols; ++j) {
      const auto at = static_cast<std::size_t>(i * s.cols + j);
      const long double x = less(s(i, j), g[static_cast<std::size_t>(j)]);
      weights[at] += coefficient * std::exp(less(x, f[static_cast<std::size_t>(i)]));
    }
  }
}

LongDoubles exact_numbers(const std::vector<double>& values, Index count) {
  LongDoubles numbers(values.begin(), values.end());
  numbers.resize(static_cast<std::size_t>(count), 0);  // an empty span is all zeros
  return numbers;
}

// Potentials of any size, some of them −inf. Empty: not given.
std::vector<double> random_potential(Index count, Random& random) {
  std::vector<double> potential;
  if (chance(random, 0.3)) return potential;
  const double size = chance(random, 0.5) ? 5000 : 2;
  for (Index n = 0; n < count; ++n) {
    const double value = std::uniform_real_distribution<double>(-size, size)(random);
    potential.push_back(chance(random, 0.05) ? -infinity : value);
  }
  return potential;
}

// Each number relative to its own size; numbers near T's smallest may be lost.
template <class T>
double weight_error(const std::vector<T>& got, const LongDoubles& want) {
  long double worst = 0;
  for (std::size_t n = 0; n < want.size(); ++n) {
    const long double smallest = std::numeric_limits<T>::min();
    const long double difference = std::abs(got[n] - want[n]);
    const long double error = want[n] == 0 ? (got[n] == 0 ? 0.0L : infinity)
                                           : difference / std::max(want[n], smallest * 1e6L);
    if (!(error <= worst)) worst = std::isnan(error) ? infinity : error;
  }
  return got.size() == want.size() ? static_cast<double>(worst) : infinity;
}

// Absolute: a potential is the logarithm of a number with a relative error.
double potential_error(const std::vector<double>& got, const LongDoubles& want) {
  long double worst = 0;
  for (std::size_t n = 0; n < want.size(); ++n) {
    const long double error = got[n] == want[n] ? 0 : std::abs(got[n] - want[n]);
    if (!(error <= worst)) worst = std::isnan(error) ? infinity : error;
  }
  return static_cast<double>(worst);
}

// The project's bound for scores of this size, and float64's rounding of potentials of 1e4.
template <class T>
constexpr double pass_bound = (sizeof(T) == 4 ? 2e-5 : 1e-12) + 1e4 * 4 * 0x1p-53;

struct Case {
  Order order;
  Completes completes;
  std::size_t parts;
};

template <class T>
void check_pass(const Case& what, int n, Random& random) {
  // Tiles have length 512: some problems have several in each direction.
  const bool large = n % 6 == 5;
  const Index rows = large ? random_index(random, 513, 600) : random_size(random, 1, 250);
  const Index cols = large ? random_index(random, 513, 600) : random_size(random, 1, 250);
  const RandomScores<T> problem(rows, cols, all_causal[n % 3], random);
  const bool by_row = what.order == Order::row_panels;
  const Index lines = by_row ? rows : cols;
  std::vector<double> log_marginal;
  if (what.completes != Completes::nothing && chance(random, 0.5)) {
    for (Index line = 0; line < lines; ++line) {
      const double marginal = std::uniform_real_distribution<double>(0.1, 3)(random);
      log_marginal.push_back(chance(random, 0.1) ? -infinity : std::log(marginal));
    }
  }
  std::vector<std::vector<double>> f(what.parts), g(what.parts);
  std::vector<LongDoubles> want_f(what.parts), want_g(what.parts);
  LongDoubles want(static_cast<std::size_t>(rows * cols), 0);
  Pass<T> pass;
  for (std::size_t c = 0; c < what.parts; ++c) {
    const LongDoubles marginal = exact_numbers(log_marginal, lines);
    if (what.completes == Completes::columns) {
      f[c] = random_potential(rows, random);
      want_f[c] = exact_numbers(f[c], rows);
      want_g[c] = log_sums(problem.exact, false, want_f[c], marginal);
      g[c].assign(static_cast<std::size_t>(cols), std::nan(""));  // written, not read
    } else {
      g[c] = random_potential(cols, random);
      want_g[c] = exact_numbers(g[c], cols);
      const LongDoubles none(static_cast<std::size_t>(rows), 0);
      want_f[c] = log_sums(problem.exact, true, want_g[c], by_row ? marginal : none);
      f[c].assign(static_cast<std::size_t>(rows), std::nan(""));
      if (what.completes == Completes::nothing) f[c].assign(want_f[c].begin(), want_f[c].end());
      if (what.completes == Completes::nothing) want_f[c] = exact_numbers(f[c], rows);
    }
    const double coefficient = what.parts == 1 ? 1 : 0.3 + 0.4 * static_cast<double>(c);
    add_weights(want, coefficient, problem.exact, want_f[c], want_g[c]);
    pass.components.push_back({coefficient, f[c], g[c]});
  }
  TileRecorder<T> some(false), all(true);
  ColumnSums<T> sums;
  pass.scores = &*problem.scores;
  pass.order = what.order;
  pass.completes = what.completes;
  pass.log_marginal = log_marginal;
  pass.observers = {&some, &sums, &all};
  run(pass, 1 + n % 3);

  CAPTURE(n);
  CAPTURE(rows);
  CAPTURE(cols);
  CAPTURE(by_row);
  CAPTURE(static_cast<int>(what.completes));
  CAPTURE(what.parts);
  CHECK(weight_error(some.weights(), want) <= pass_bound<T>);
  CHECK(weight_error(all.weights(), want) <= pass_bound<T>);
  for (std::size_t c = 0; c < what.parts; ++c) {
    if (!f[c].empty()) CHECK(potential_error(f[c], want_f[c]) <= pass_bound<T>);
    if (!g[c].empty()) CHECK(potential_error(g[c], want_g[c]) <= pass_bound<T>);
  }
  CHECK(some.saw_each_once(problem.exact, false));
  CHECK(all.saw_each_once(problem.exact, true));
  CHECK(some.in_promised_order());
  CHECK(all.in_promised_order());
  CHECK(some.started_and_finished_once());

  // The same bits for any number of threads.
  const auto kept_f = f;
  const auto kept_g = g;
  const auto weights = some.weights();
  const auto column_sums = sums.values();
  run(pass, 1 + (n + 1) % 3);
  CHECK(same_nonempty_bits(some.weights(), weights));
  CHECK(sums.values() == column_sums);
  CHECK(f == kept_f);
  CHECK(g == kept_g);
}

}  // namespace

TEST_CASE_TEMPLATE("passes against plain loops", T, float, double) {
  Random random(81);
  for (int n = 0; n < 12; ++n) {
    for (const Case& what :
         {Case{Order::row_panels, Completes::rows, 1}, Case{Order::row_panels, Completes::rows, 2},
          Case{Order::row_panels, Completes::nothing, 1},
          Case{Order::row_panels, Completes::nothing, 2},
          Case{Order::column_panels, Completes::columns, 1},
          Case{Order::column_panels, Completes::nothing, 1},
          Case{Order::column_panels, Completes::nothing, 2}}) {
      check_pass<T>(what, n, random);
    }
  }
}

TEST_CASE_TEMPLATE("column sums in either order are the same to rounding", T, float, double) {
  Random random(83);
  for (int n = 0; n < 6; ++n) {
    const Index rows = random_size(random, 100, 900);
    const Index cols = random_size(random, 50, 700);
    const RandomScores<T> problem(rows, cols, all_causal[n % 3], random);
    std::vector<double> f(static_cast<std::size_t>(problem.scores->rows()));
    ColumnSums<T> by_row, by_col;
    Pass<T> pass;
    pass.scores = &*problem.scores;
    pass.completes = Completes::rows;
    pass.components = {Component{1, f, {}}};
    run(pass, 1);
    pass.completes = Completes::nothing;
    pass.observers = {&by_row};
    run(pass, 2);
    pass.order = Order::column_panels;
    pass.observers = {&by_col};
    run(pass, 2);
    // The weights have the same bits; at most 64 of them are added up in T, all >= 0.
    const double error = 2 * (64 * std::numeric_limits<T>::epsilon() / 2 + 1000 * 0x1p-53);
    REQUIRE(by_row.values().size() == by_col.values().size());
    bool agree = true;
    for (std::size_t j = 0; j < by_row.values().size(); ++j) {
      const double sum = by_row.values()[j];
      agree = agree && std::abs(by_col.values()[j] - sum) <= error * sum;
    }
    CHECK(agree);
    CHECK(*std::max_element(by_row.values().begin(), by_row.values().end()) > 0);
  }
}
