#include "score/scores.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "guarded.hpp"
#include "infinity.hpp"
#include "random_problem.hpp"

using namespace attn;
using namespace attn::testing;

namespace {

template <class T>
reference::Matrix matrix(MatrixView<const T> view) {
  reference::Matrix m(view.rows, view.cols);
  for (Index i = 0; i < view.rows; ++i) {
    for (Index j = 0; j < view.cols; ++j) m(i, j) = view(i, j);
  }
  return m;
}

// max_i ‖x_i − m‖, m the mean of all rows of q and k where `centred`, else 0.
double largest_norm(const reference::Matrix& q, const reference::Matrix& k, bool centred,
                    const reference::Matrix& of) {
  long double largest = 0;
  std::vector<long double> mean(static_cast<std::size_t>(q.cols), 0);
  for (const auto* m : {&q, &k}) {
    for (Index i = 0; centred && i < m->rows; ++i) {
      for (Index c = 0; c < m->cols; ++c) {
        mean[static_cast<std::size_t>(c)] += (*m)(i, c) / static_cast<long double>(q.rows + k.rows);
      }
    }
  }
  for (Index i = 0; i < of.rows; ++i) {
    long double norm = 0;
    for (Index c = 0; c < of.cols; ++c) {
      const long double x = of(i, c) - mean[static_cast<std::size_t>(c)];
      norm += x * x;
    }
    largest = std::max(largest, std::sqrt(norm));
  }
  return static_cast<double>(largest);
}

// The error bound of a dot product of this depth in T: (depth + 8) half-units of ‖q‖‖k‖, for the
// products, sums and scale and, with the gaussian energy, the centring and the norms.
template <class T>
double energy_error(EnergyKind kind, double scale, const reference::Matrix& q,
                    const reference::Matrix& k) {
  const bool gaussian = kind == EnergyKind::gaussian;
  const double q_norm = largest_norm(q, k, gaussian, q);
  const double k_norm = largest_norm(q, k, gaussian, k);
  const double size = gaussian ? (q_norm + k_norm) * (q_norm + k_norm) : q_norm * k_norm;
  const double root = kind == EnergyKind::scaled_dot ? std::sqrt(static_cast<double>(q.cols)) : 1;
  return static_cast<double>(q.cols + 8) * std::numeric_limits<T>::epsilon() / 2 * size *
         std::abs(scale) / root;
}

TileRange random_range(Random& random, Index rows, Index cols) {
  TileRange range;
  range.row0 = random_index(random, 0, rows - 1);
  range.rows = random_index(random, 1, rows - range.row0);
  range.col0 = random_index(random, 0, cols - 1);
  range.cols = random_index(random, 1, cols - range.col0);
  return range;
}

// Fills `range` in memory that contained garbage, and checks that nothing else is written.
template <class T>
Guarded<T> guarded_fill(const Scores<T>& scores, const TileRange& range) {
  typename Scores<T>::Scratch scratch;
  Guarded<T> out(range.rows, range.cols);
  out.fill([] { return std::numeric_limits<T>::quiet_NaN(); });
  scores.fill(range, out.view(), scratch);
  CHECK(out.intact());
  return out;
}

// The largest error against `want`, infinite if a −inf is missing or wrong.
template <class T>
double score_error(const Guarded<T>& got, const TileRange& range, const reference::Matrix& want) {
  double worst = 0;
  for (Index i = 0; i < range.rows; ++i) {
    for (Index j = 0; j < range.cols; ++j) {
      const long double expected = want(range.row0 + i, range.col0 + j);
      const long double value = got.view()(i, j);
      const double error = value == expected ? 0 : static_cast<double>(std::abs(value - expected));
      if (!(error <= worst)) worst = std::isnan(error) ? infinity : error;
    }
  }
  return worst;
}

template <class T>
void check_energy(EnergyKind kind, double scale, double offset, double spread, Random& random) {
  ProblemOptions options;
  options.queries = random_size(random, 1, 150);
  options.keys = random_size(random, 1, 150);
  options.depth = random_size(random, 1, 130);
  options.energy = kind;
  options.scale = scale;
  options.offset = offset;
  options.spread = spread;
  const Problem<T> problem(options, random);
  const auto want = problem.reference_scores();
  const double bound = energy_error<T>(kind, scale, matrix(problem.q()), matrix(problem.k()));
  CAPTURE(static_cast<int>(kind));
  CAPTURE(scale);
  CAPTURE(offset);
  CAPTURE(options.queries);
  CAPTURE(options.keys);
  CAPTURE(options.depth);
  const TileRange whole{0, options.queries, 0, options.keys};
  CHECK(score_error(guarded_fill(problem.scores(), whole), whole, want) <= bound);
  for (int n = 0; n < 4; ++n) {
    const TileRange range = random_range(random, options.queries, options.keys);
    const auto tile = guarded_fill(problem.scores(), range);
    CHECK(score_error(tile, range, want) <= bound);
    CHECK(guarded_fill(problem.scores(), range) == tile);  // the same range, the same bits
  }
  const auto energy = make_product_energy<T>(kind, problem.q(), problem.k(), scale);
  CHECK(energy->rows() == options.queries);
  CHECK(energy->cols() == options.keys);
  CHECK(!energy->may_forbid());
  CHECK(energy->bound() >= largest_score(want) * (1 - 1e-6));
}

}  // namespace

TEST_CASE_TEMPLATE("energies agree with the reference to the error of a dot product", T, float,
                   double) {
  Random random(61);
  for (int n = 0; n < 8; ++n) {
    for (const EnergyKind kind : all_energies) {
      for (const double scale : {1.0, 0.7, -2.0, 0.0}) check_energy<T>(kind, scale, 0, 1, random);
    }
  }
}

TEST_CASE_TEMPLATE("an offset of all points does not reduce the accuracy of the gaussian energy", T,
                   float, double) {
  Random random(62);
  for (int n = 0; n < 10; ++n) {
    for (const double offset : {100.0, 1e4, -1e4}) {
      for (const double scale : {1.0, 0.3}) {
        check_energy<T>(EnergyKind::gaussian, scale, offset, 1, random);
      }
    }
  }
}

TEST_CASE_TEMPLATE("the gaussian energy of points far apart, and of equal ones", T, float, double) {
  Random random(63);
  for (const double spread : {1e-3, 50.0}) {
    check_energy<T>(EnergyKind::gaussian, 1, 100, spread, random);
  }
  const std::vector<T> point = {T{3}, T{-4}, T{1000}};
  const MatrixView<const T> x(point.data(), 1, 3);
  const auto energy = make_product_energy<T>(EnergyKind::gaussian, x, x, 5);
  T value = -1;
  energy->fill({0, 1, 0, 1}, MatrixView<T>(&value, 1, 1));
  CHECK(value == 0);
}

TEST_CASE_TEMPLATE("mask, bias and causality against the reference", T, float, double) {
  Random random(64);
  for (int n = 0; n < 90; ++n) {
    ProblemOptions options;
    options.queries = random_size(random, 1, 90);
    options.keys = chance(random, 0.2) ? options.queries : random_size(random, 1, 90);
    options.depth = random_size(random, 1, 20);
    options.energy = all_energies[n % 3];
    options.causal = all_causal[n / 3 % 3];
    options.mask = chance(random, 0.5);
    options.bias = chance(random, 0.5);
    if (chance(random, 0.2)) options.row_shift = 5000;
    const Problem<T> problem(options, random);
    const auto want = problem.reference_scores();
    // The bias adds one rounding of a sum that is no larger than energy and bias together.
    const double bound =
        energy_error<T>(options.energy, 1, matrix(problem.q()), matrix(problem.k())) +
        std::numeric_limits<T>::epsilon() * (largest_score(want) + 10);
    CAPTURE(n);
    CAPTURE(options.queries);
    CAPTURE(options.keys);
    for (int repeat = 0; repeat < 6; ++repeat) {
      const TileRange range = repeat == 0 ? TileRange{0, options.queries, 0, options.keys}
                                          : random_range(random, options.queries, options.keys);
      const auto tile = guarded_fill(problem.scores(), range);
      CHECK(score_error(tile, range, want) <= bound);
      CHECK(guarded_fill(problem.scores(), range) == tile);
    }
  }
}

TEST_CASE_TEMPLATE("causality by hand, with queries without allowed keys", T, float, double) {
  const auto allowed = [](Index rows, Index cols, Causal causal) {
    const auto energy = make_zero_energy<T>(rows, cols);
    typename Scores<T>::Terms terms;
    terms.energy = energy.get();
    terms.band = causal_band(causal, rows, cols);
    const auto tile = guarded_fill(Scores<T>(terms), {0, rows, 0, cols});
    std::string text;
    for (Index i = 0; i < rows; ++i) {
      if (i > 0) text += ' ';
      for (Index j = 0; j < cols; ++j) text += tile.view()(i, j) == 0 ? 'x' : '.';
    }
    return text;
  };
  CHECK(allowed(3, 3, Causal::none) == "xxx xxx xxx");
  CHECK(allowed(3, 3, Causal::top_left) == "x.. xx. xxx");
  CHECK(allowed(3, 3, Causal::bottom_right) == "x.. xx. xxx");
  CHECK(allowed(2, 4, Causal::top_left) == "x... xx..");
  CHECK(allowed(2, 4, Causal::bottom_right) == "xxx. xxxx");
  CHECK(allowed(4, 2, Causal::top_left) == "x. xx xx xx");
  CHECK(allowed(4, 2, Causal::bottom_right) == ".. .. x. xx");
  CHECK(allowed(1, 3, Causal::top_left) == "x..");
  CHECK(allowed(1, 3, Causal::bottom_right) == "xxx");
}

TEST_CASE_TEMPLATE("a bound known in advance does not change a bit", T, float, double) {
  Random random(65);
  for (const Causal causal : all_causal) {
    const Index rows = 37;
    const Index cols = 53;
    const auto count = static_cast<std::size_t>(rows * cols);
    std::vector<T> bias(count);
    std::vector<std::uint8_t> mask(count);
    std::normal_distribution<double> unit;
    for (T& b : bias) b = static_cast<T>(chance(random, 0.1) ? -infinity : unit(random));
    // Anything but 0 allows.
    for (auto& may : mask)
      may = static_cast<std::uint8_t>(std::max<Index>(0, random_index(random, -99, 255)));
    std::vector<T> q(static_cast<std::size_t>(rows) * 3, T{0.3F});
    std::vector<T> k(static_cast<std::size_t>(cols) * 3);
    for (T& x : k) x = static_cast<T>(unit(random));
    const auto energy =
        make_product_energy<T>(EnergyKind::dot, {q.data(), rows, 3}, {k.data(), cols, 3}, 1);
    const BroadcastMatrix<T> known(bias.data(), cols, 1, 10);
    const BroadcastMatrix<T> unknown(bias.data(), cols, 1);
    const BroadcastMatrix<std::uint8_t> mask_source(mask.data(), cols, 1);
    typename Scores<T>::Terms terms{energy.get(), &known, &mask_source,
                                    causal_band(causal, rows, cols)};
    const Scores<T> fast(terms);
    terms.bias = &unknown;
    const Scores<T> checked(terms);
    for (int n = 0; n < 10; ++n) {
      const TileRange range = random_range(random, rows, cols);
      CHECK(guarded_fill(fast, range) == guarded_fill(checked, range));
    }
  }
}

TEST_CASE_TEMPLATE("bytes of an energy", T, float, double) {
  CHECK(product_energy_bytes(EnergyKind::dot, 10, 20, 7, sizeof(T)) == 0);
  CHECK(product_energy_bytes(EnergyKind::scaled_dot, 10, 20, 7, sizeof(T)) == 0);
  // Copies of q and k, and a float64 norm for each row.
  CHECK(product_energy_bytes(EnergyKind::gaussian, 10, 20, 7, sizeof(T)) ==
        30 * (7 * static_cast<std::int64_t>(sizeof(T)) + 8));
}
