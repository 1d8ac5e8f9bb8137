// Bilinear and mlp energies and further terms at their limits: formats, shapes, bits, bounds.

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "guarded.hpp"
#include "infinity.hpp"
#include "random_problem.hpp"
#include "score/scores.hpp"
#include "score_values.hpp"
#include "thrown_error.hpp"

using namespace attn;
using namespace attn::testing;

namespace {

template <class T>
constexpr T forbidden = -std::numeric_limits<T>::infinity();

// One query, two keys with the given energies.
template <class T>
class Pair final : public Energy<T> {
 public:
  Pair(T first, T second, bool may_forbid = false)
      : first_(first), second_(second), may_forbid_(may_forbid) {}
  Index rows() const override { return 1; }
  Index cols() const override { return 2; }
  void fill(const TileRange& range, MatrixView<T> out) const override {
    for (Index j = 0; j < range.cols; ++j) out(0, j) = range.col0 + j == 0 ? first_ : second_;
  }
  double bound() const override { return infinity; }
  bool may_forbid() const override { return may_forbid_; }

 private:
  T first_;
  T second_;
  bool may_forbid_;
};

}  // namespace

TEST_CASE_TEMPLATE("tiles of scores agree with the reference at every position", T, float, double) {
  Random random(141);
  for (int n = 0; n < 40; ++n) {
    ProblemOptions options;
    options.queries = random_size(random, 1, 90);
    options.keys = random_size(random, 1, 90);
    options.depth = random_size(random, 1, 20);
    options.key_depth = random_size(random, 1, 20);
    options.hidden = random_size(random, 1, 70);
    options.mechanism = n % 3 == 0   ? Mechanism::product
                        : n % 3 == 1 ? Mechanism::bilinear
                                     : Mechanism::mlp;
    options.relative = n % 4 == 0 ? Relative::t5 : n % 4 == 1 ? Relative::alibi : Relative::none;
    options.preference = chance(random, 0.5);
    options.bias = chance(random, 0.5);
    options.mask = chance(random, 0.5);
    if (chance(random, 0.5)) options.softcap = 2;
    if (chance(random, 0.5)) options.window = Window::nearer_than(random_size(random, 1, 50));
    if (chance(random, 0.5)) options.key_length = random_index(random, 0, options.keys);
    if (chance(random, 0.5)) options.causal = Causal::bottom_right;
    const Problem<T> problem(options, random);
    const auto want = problem.reference_scores();
    // Energies here are sums of fewer than 200 terms of size 10 at most, biases below 1e2.
    const double allowed = 600 * std::numeric_limits<T>::epsilon();
    CAPTURE(n);
    for (int repeat = 0; repeat < 5; ++repeat) {
      TileRange range;
      range.row0 = random_index(random, 0, options.queries - 1);
      range.rows = random_index(random, 1, options.queries - range.row0);
      range.col0 = random_index(random, 0, options.keys - 1);
      range.cols = random_index(random, 1, options.keys - range.col0);
      const auto got = score_values(problem.scores(), range);
      double worst = 0;
      for (Index i = 0; i < range.rows; ++i) {
        for (Index j = 0; j < range.cols; ++j) {
          const long double expected = want(range.row0 + i, range.col0 + j);
          const long double value = got[static_cast<std::size_t>(i * range.cols + j)];
          const double error =
              value == expected ? 0 : static_cast<double>(std::abs(value - expected));
          if (!(error <= worst)) worst = std::isnan(error) ? infinity : error;
        }
      }
      CHECK(worst <= allowed);
    }
    const AllowedCounts counts = problem.scores().allowed_counts();
    for (Index i = 0; i < options.queries; ++i) {
      Index keys = 0;
      for (Index j = 0; j < options.keys; ++j) keys += std::isinf(want(i, j)) ? 0 : 1;
      CHECK(counts.keys_of_query[static_cast<std::size_t>(i)] == keys);
    }
  }
}

TEST_CASE_TEMPLATE("a bound that is not known in advance does not change a bit of any term", T,
                   float, double) {
  Random random(142);
  const Index rows = 37;
  const Index cols = 53;
  const auto relative = alibi_bias<T>(0.1, rows, cols, BandRule{true, {}, 0});
  const auto count = static_cast<std::size_t>(rows * cols);
  std::normal_distribution<double> normal;
  std::vector<T> values(count), preference(count);
  for (T& x : values) x = static_cast<T>(chance(random, 0.1) ? -infinity : normal(random));
  for (T& u : preference) u = static_cast<T>(chance(random, 0.1) ? 0 : std::exp(normal(random)));
  const BroadcastMatrix<T> known(values.data(), cols, 1, 10);
  const BroadcastMatrix<T> unknown(values.data(), cols, 1);
  const BroadcastMatrix<T> u(preference.data(), cols, 1);
  const MatrixView<const T> q(preference.data(), rows, 5);
  const MatrixView<const T> k(preference.data(), cols, 5);
  const auto energy = make_product_energy<T>(EnergyKind::dot, q, k, 3);
  for (int which = 0; which < 16; ++which) {
    typename Scores<T>::Terms terms;
    terms.energy = energy.get();
    terms.band.causal = true;
    if ((which & 1) != 0) terms.relative = &relative;
    if ((which & 2) != 0) terms.preference = &u;
    if ((which & 4) != 0) terms.softcap = 4;
    if ((which & 8) != 0) terms.band.window = Window::nearer_than(20);
    terms.bias = &known;
    const auto fast = score_values(Scores<T>(terms));
    terms.bias = &unknown;
    CAPTURE(which);
    CHECK(score_values(Scores<T>(terms)) == fast);
  }
}

TEST_CASE_TEMPLATE("a soft cap does not hide overflows, and keeps -inf", T, float, double) {
  typename Scores<T>::Terms terms;
  terms.softcap = 2;
  const std::uint8_t first[] = {1, 0};
  const BroadcastMatrix<std::uint8_t> first_only(first, 0, 1);
  for (const double bad : {infinity, -infinity, std::nan("")}) {
    const Pair<T> energy(1, static_cast<T>(bad));
    terms.energy = &energy;
    terms.mask = nullptr;
    const Error error = thrown_error([&] { score_values(Scores<T>(terms)); });
    CHECK(error.failure() == Failure::numerical);
    CHECK(contains(error.what(), "query 0 and key 1"));
    // If it is forbidden, it may have any energy.
    terms.mask = &first_only;
    CHECK(score_values(Scores<T>(terms))[1] == forbidden<T>);
  }
  terms.mask = nullptr;
  const Pair<T> stored(1, forbidden<T>, true);
  terms.energy = &stored;
  CHECK(score_values(Scores<T>(terms))[1] == forbidden<T>);
  // The cap brings a finite energy that is too large for a score back into range.
  const Pair<T> large(1, std::numeric_limits<T>::max());
  terms.energy = &large;
  CHECK(score_values(Scores<T>(terms))[1] == T{2});
  for (const double bad : {0.0, -1.0, infinity, std::nan("")}) {
    terms.softcap = bad;
    CHECK(thrown_error([&] { Scores<T> refused(terms); }).failure() == Failure::input);
  }
}

TEST_CASE_TEMPLATE("an invalid preference is refused with its query and key", T, float, double) {
  const auto energy = make_zero_energy<T>(2, 3);
  std::vector<T> values(6, T{0.5});
  const BroadcastMatrix<T> source(values.data(), 3, 1);
  typename Scores<T>::Terms terms;
  terms.energy = energy.get();
  terms.preference = &source;
  CHECK(score_values(Scores<T>(terms))[5] == static_cast<T>(std::log(0.5)));
  for (const double bad : {-1.0, infinity, std::nan("")}) {
    values[5] = static_cast<T>(bad);
    for (const bool looking : {false, true}) {
      const Error error = thrown_error([&] {
        if (looking) {
          Scores<T>(terms).allowed_counts();
        } else {
          score_values(Scores<T>(terms));
        }
      });
      CHECK(error.failure() == Failure::input);
      CHECK(contains(error.what(), "the preference of query 1 and key 2 is"));
    }
  }
}

TEST_CASE_TEMPLATE("energies whose projections exceed the format are refused", T, float, double) {
  constexpr T x = sizeof(T) == 4 ? static_cast<T>(1e25F) : static_cast<T>(1e160);
  const std::vector<T> q = {x, x};
  const std::vector<T> k = {1, 1, 1, 0};
  const std::vector<T> cancelling = {x, 0, -x, 0};  // q W = (inf − inf, 0)
  const MatrixView<const T> rows(q.data(), 1, 2);
  const MatrixView<const T> cols(k.data(), 2, 2);
  SUBCASE("bilinear") {
    const auto energy = make_bilinear_energy<T>(rows, cols, {cancelling.data(), 2, 2}, 1);
    CHECK(std::isinf(energy->bound()));
    typename Scores<T>::Terms terms;
    terms.energy = energy.get();
    CHECK(thrown_error([&] { score_values(Scores<T>(terms)); }).failure() == Failure::numerical);
  }
  SUBCASE("mlp: tanh would turn a NaN argument into a number") {
    const std::vector<T> w1 = {x, -x, 0, 0};
    const std::vector<T> w2 = {1};
    const auto energy = make_mlp_energy<T>(rows, cols, {{w1.data(), 1, 4}, w2, {}}, 1);
    CHECK(std::isinf(energy->bound()));
    typename Scores<T>::Terms terms;
    terms.energy = energy.get();
    CHECK(thrown_error([&] { score_values(Scores<T>(terms)); }).failure() == Failure::numerical);
  }
  SUBCASE("mlp: one key only") {
    const std::vector<T> keys = {1, 1, x, x};
    const std::vector<T> w1 = {0, 0, x, -x};
    const std::vector<T> w2 = {1};
    const auto energy = make_mlp_energy<T>(cols.row_range(0, 1), {keys.data(), 2, 2},
                                           {{w1.data(), 1, 4}, w2, {}}, 1);
    typename Scores<T>::Terms terms;
    terms.energy = energy.get();
    CHECK(contains(thrown_error([&] { score_values(Scores<T>(terms)); }).what(),
                   "query 0 and key 1"));
    const std::uint8_t first[] = {1, 0};
    const BroadcastMatrix<std::uint8_t> first_only(first, 0, 1);
    terms.mask = &first_only;
    CHECK(score_values(Scores<T>(terms))[0] == 0);
  }
}

TEST_CASE_TEMPLATE("bounds hold, and the bytes equal those of the projections", T, float, double) {
  Random random(143);
  for (const Mechanism mechanism : {Mechanism::bilinear, Mechanism::mlp}) {
    for (int n = 0; n < 20; ++n) {
      ProblemOptions options;
      options.queries = random_size(random, 1, 60);
      options.keys = random_size(random, 1, 60);
      options.depth = random_size(random, 1, 30);
      options.key_depth = random_size(random, 1, 30);
      options.hidden = random_size(random, 1, 30);
      options.mechanism = mechanism;
      options.scale = -2.5;
      options.spread = 4;
      const Problem<T> problem(options, random);
      CHECK(problem.energy().bound() >= largest_score(problem.reference_scores()) * (1 - 1e-6));
      CHECK(std::isfinite(problem.energy().bound()));
      CHECK(problem.energy().rows() == options.queries);
      CHECK(problem.energy().cols() == options.keys);
    }
  }
  const auto element = static_cast<std::int64_t>(sizeof(T));
  CHECK(bilinear_energy_bytes(10, 20, 7, 9, sizeof(T)) == 10 * 9 * element);
  CHECK(bilinear_energy_bytes(200, 100, 9, 7, sizeof(T)) ==
        200 * 7 * element + product_energy_bytes(EnergyKind::dot, 200, 100, 7, sizeof(T)));
  CHECK(bilinear_energy_bytes(2000, 10, 9, 7, sizeof(T)) ==
        10 * 9 * element + product_energy_bytes(EnergyKind::dot, 2000, 10, 9, sizeof(T)));
  CHECK(mlp_energy_bytes(10, 20, 7, sizeof(T)) == 31 * 7 * element);
}

TEST_CASE_TEMPLATE("weights of other shapes are refused", T, float, double) {
  const std::vector<T> numbers(60, T{1});
  const MatrixView<const T> q(numbers.data(), 2, 3);
  const MatrixView<const T> k(numbers.data(), 4, 5);
  const auto some = [&](std::size_t count) { return std::span<const T>(numbers.data(), count); };
  const auto w = [&](Index rows, Index cols) {
    return MatrixView<const T>(numbers.data(), rows, cols);
  };
  const auto bilinear = [&](Index rows, Index cols) {
    return thrown_error([&] { make_bilinear_energy<T>(q, k, w(rows, cols), 1); });
  };
  CHECK(contains(bilinear(5, 3).what(), "w is (5, 3), expected (3, 5)"));
  CHECK(bilinear(3, 4).failure() == Failure::input);
  const auto mlp = [&](Index rows, Index cols, std::size_t w2, std::size_t bias) {
    return thrown_error([&] {
      make_mlp_energy<T>(q, k, {w(rows, cols), some(w2), some(bias)}, 1);
    });
  };
  CHECK(contains(mlp(2, 7, 2, 0).what(), "w1 is (2, 7), expected (A, 8)"));
  CHECK(contains(mlp(2, 8, 3, 0).what(), "w2 has 3 elements, expected 2"));
  CHECK(contains(mlp(2, 8, 2, 1).what(), "b1 has 1 elements, expected 2"));
  const auto energy = make_zero_energy<T>(4, 4);
  const auto relative = alibi_bias<T>(1, 4, 5, BandRule{});
  typename Scores<T>::Terms terms;
  terms.energy = energy.get();
  terms.relative = &relative;
  CHECK_THROWS_AS(Scores<T>{terms}, std::logic_error);
}

TEST_CASE_TEMPLATE("identical rows are inspected once", T, float, double) {
  Random random(144);
  for (int n = 0; n < 60; ++n) {
    const Index rows = random_size(random, 1, 100);
    const Index cols = chance(random, 0.2) ? 5000 : random_size(random, 1, 100);
    std::vector<T> bias(static_cast<std::size_t>(cols)), preference(bias.size());
    std::vector<std::uint8_t> mask(bias.size());
    for (T& x : bias) x = chance(random, 0.2) ? forbidden<T> : T{1};
    for (T& u : preference) u = chance(random, 0.2) ? T{0} : T{1};
    for (auto& may : mask) may = chance(random, 0.2) ? 0 : 7;
    const BroadcastMatrix<T> bias_source(bias.data(), 0, 1);
    const BroadcastMatrix<T> preference_source(preference.data(), 0, 1);
    const BroadcastMatrix<std::uint8_t> mask_source(mask.data(), 0, 1);
    const auto energy = make_zero_energy<T>(rows, cols);
    typename Scores<T>::Terms terms;
    terms.energy = energy.get();
    if (chance(random, 0.6)) terms.bias = &bias_source;
    if (chance(random, 0.6)) terms.preference = &preference_source;
    if (chance(random, 0.6)) terms.mask = &mask_source;
    if (chance(random, 0.5)) terms.band = causal_band(Causal::bottom_right, rows, cols);
    if (chance(random, 0.5)) terms.band.window = Window::nearer_than(random_size(random, 1, cols));
    const Scores<T> scores(terms);
    AllowedCounts want;
    want.keys_of_query.assign(static_cast<std::size_t>(rows), 0);
    want.queries_of_key.assign(static_cast<std::size_t>(cols), 0);
    const auto s = score_values(scores);
    for (Index i = 0; i < rows; ++i) {
      for (Index j = 0; j < cols; ++j) {
        if (std::isinf(s[static_cast<std::size_t>(i * cols + j)])) continue;
        ++want.keys_of_query[static_cast<std::size_t>(i)];
        ++want.queries_of_key[static_cast<std::size_t>(j)];
      }
    }
    const AllowedCounts got = scores.allowed_counts();
    CAPTURE(n);
    CHECK(got.keys_of_query == want.keys_of_query);
    CHECK(got.queries_of_key == want.queries_of_key);
  }
}
