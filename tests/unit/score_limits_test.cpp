// Scores at the edges of the format, ready-made scores, and allowed pairs.

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
Scores<T> scores_of(const Energy<T>& energy, const MatrixSource<T>* bias = nullptr,
                    const MatrixSource<std::uint8_t>* mask = nullptr,
                    Causal causal = Causal::none) {
  typename Scores<T>::Terms terms;
  terms.energy = &energy;
  terms.bias = bias;
  terms.mask = mask;
  terms.band = causal_band(causal, energy.rows(), energy.cols());
  return Scores<T>(terms);
}

// One query (1, 1), keys of two coordinates.
template <class T>
struct Dots {
  std::vector<T> q, k;
  std::unique_ptr<Energy<T>> energy;
  Dots(std::vector<T> query, std::vector<T> keys, double scale = 1)
      : q(std::move(query)), k(std::move(keys)) {
    energy = make_product_energy<T>(EnergyKind::dot, {q.data(), 1, 2},
                                    {k.data(), static_cast<Index>(k.size()) / 2, 2}, scale);
  }
};

// One query and two keys, the second of which overflows to NaN.
template <class T>
class NotANumber final : public Energy<T> {
 public:
  Index rows() const override { return 1; }
  Index cols() const override { return 2; }
  void fill(const TileRange&, MatrixView<T> out) const override {
    out(0, 0) = 1;
    out(0, 1) = std::numeric_limits<T>::quiet_NaN();
  }
  double bound() const override { return infinity; }
};

template <class T>
void check_refused(const Scores<T>& scores, const std::string& key) {
  const Error error = thrown_error([&] { score_values(scores); });
  CHECK(error.failure() == Failure::numerical);
  CHECK(contains(error.what(), "query 0 and key " + key + " is beyond the range of"));
  CHECK(contains(error.what(), sizeof(T) == 4 ? "float32" : "float64"));
  CHECK(error.remedy() == (sizeof(T) == 4 ? Remedy::float64 : Remedy::none));
}

// Products of two of these are beyond the type.
template <class T>
constexpr T large = sizeof(T) == sizeof(float) ? T{1e25F} : static_cast<T>(1e160);

}  // namespace

TEST_CASE_TEMPLATE("scores that exceed the format in any way are refused", T, float, double) {
  constexpr T x = large<T>;
  constexpr T most = std::numeric_limits<T>::max();
  SUBCASE("to +inf") { check_refused(scores_of(*Dots<T>({x, 1}, {1, 1, x, 1}).energy), "1"); }
  SUBCASE("to -inf, which is not a mask") {
    const Dots<T> dots({x, 1}, {1, 1, -x, 1});
    check_refused(scores_of(*dots.energy), "1");
    CHECK(scores_of(*dots.energy).allowed_counts().keys_of_query == std::vector<Index>{2});
  }
  SUBCASE("inf - inf, whatever BLAS computes for it") {
    check_refused(scores_of(*Dots<T>({x, x}, {1, 1, x, -x}).energy), "1");
  }
  SUBCASE("to NaN") {
    const NotANumber<T> energy;
    check_refused(scores_of<T>(energy), "1");
  }
  SUBCASE("finite, but beyond a sixteenth of the format") {
    check_refused(scores_of(*Dots<T>({1, 0}, {most / 16, 0, most / 8, 0}).energy), "1");
    check_refused(scores_of(*Dots<T>({1, 0}, {-most / 16, 0, -most / 8, 0}).energy), "1");
  }
  SUBCASE("by the scale only") {
    check_refused(scores_of(*Dots<T>({1, 0}, {0, 1, 1, 0}, most).energy), "1");
    check_refused(scores_of(*Dots<T>({1, 0}, {0, 1, 1, 0}, -static_cast<double>(most)).energy),
                  "1");
  }
  SUBCASE("by the bias only") {
    const Dots<T> dots({1, 0}, {1, 0, 1, 0});
    const std::vector<T> values = {0, -most};
    for (const double bound : {static_cast<double>(most), infinity}) {
      const BroadcastMatrix<T> bias(values.data(), 2, 1, bound);
      check_refused(scores_of<T>(*dots.energy, &bias), "1");
    }
  }
  SUBCASE("in the gaussian energy") {
    const std::vector<T> q = {0, 0};
    const std::vector<T> k = {1, 1, x, x};
    const auto energy =
        make_product_energy<T>(EnergyKind::gaussian, {q.data(), 1, 2}, {k.data(), 2, 2}, 1);
    CHECK(thrown_error([&] { score_values(scores_of(*energy)); }).failure() == Failure::numerical);
  }
}

TEST_CASE_TEMPLATE("scores that just fit are computed", T, float, double) {
  const T most = std::numeric_limits<T>::max() / 16;
  CHECK(score_values(scores_of(*Dots<T>({1, 0}, {most, 0, -most, 0}).energy)) ==
        std::vector<T>{most, -most});
  // A bias may bring an energy that is too large back into range.
  const Dots<T> dots({1, 0}, {2 * most, 0, 0, 0});
  const std::vector<T> values = {-2 * most, 1};
  const BroadcastMatrix<T> bias(values.data(), 2, 1);
  CHECK(score_values(scores_of<T>(*dots.energy, &bias)) == std::vector<T>{0, 1});
}

TEST_CASE("a scale beyond float32 is an error for float, not NaN or infinity") {
  // The true scores are 0 and 10.
  const Dots<float> zero({0, 0}, {1, 1}, 1e39);
  const Dots<float> tiny({1e-19F, 0}, {1e-19F, 0}, 1e39);
  for (const auto* dots : {&zero, &tiny}) {
    CHECK(thrown_error([&] { score_values(scores_of(*dots->energy)); }).failure() ==
          Failure::numerical);
  }
  const auto energy = make_product_energy<float>(EnergyKind::gaussian, {zero.q.data(), 1, 2},
                                                 {zero.q.data(), 1, 2}, 1e39);
  CHECK(thrown_error([&] { score_values(scores_of(*energy)); }).failure() == Failure::numerical);
}

TEST_CASE_TEMPLATE("a forbidden pair may have any energy", T, float, double) {
  constexpr T x = large<T>;
  constexpr T forbidden = -std::numeric_limits<T>::infinity();
  // Keys 1 to 3 overflow to +inf, -inf and NaN.
  const Dots<T> dots({x, x}, {0, 0, x, 0, -x, 0, x, -x});
  const std::vector<T> want = {0, forbidden, forbidden, forbidden};
  SUBCASE("by mask") {
    const std::vector<std::uint8_t> may = {1, 0, 0, 0};
    const BroadcastMatrix<std::uint8_t> mask(may.data(), 4, 1);
    CHECK(score_values(scores_of<T>(*dots.energy, nullptr, &mask)) == want);
  }
  SUBCASE("by bias") {
    const std::vector<T> values = {0, forbidden, forbidden, forbidden};
    const BroadcastMatrix<T> bias(values.data(), 4, 1, 0);
    CHECK(score_values(scores_of<T>(*dots.energy, &bias)) == want);
  }
  SUBCASE("by causality") {
    CHECK(score_values(scores_of<T>(*dots.energy, nullptr, nullptr, Causal::top_left)) == want);
  }
}

TEST_CASE_TEMPLATE("ready-made scores: scale, bias and -inf", T, float, double) {
  constexpr T forbidden = -std::numeric_limits<T>::infinity();
  const std::vector<T> s = {1, forbidden, -2, 4};
  const std::vector<T> added = {1, 1, forbidden, 0};
  for (const double bound : {4.0, infinity}) {
    const BroadcastMatrix<T> source(s.data(), 4, 1, bound);
    const BroadcastMatrix<T> bias(added.data(), 4, 1, bound);
    for (const double scale : {1.0, 0.5, 0.0, -3.0}) {
      CAPTURE(bound);
      CAPTURE(scale);
      const auto energy = make_stored_energy<T>(source, 1, 4, scale);
      CHECK(energy->may_forbid());
      const auto x = static_cast<T>(scale);
      CHECK(score_values(scores_of(*energy)) == std::vector<T>{x, forbidden, -2 * x, 4 * x});
      CHECK(score_values(scores_of<T>(*energy, &bias)) ==
            std::vector<T>{x + 1, forbidden, forbidden, 4 * x});
    }
  }
}

TEST_CASE_TEMPLATE("ready-made scores that exceed the format after scaling are refused", T, float,
                   double) {
  const T x = std::numeric_limits<T>::max() / 16;
  for (const T score : {x, -x}) {
    const std::vector<T> s = {0, score};
    for (const double bound : {static_cast<double>(x), infinity}) {
      for (const double scale : {2.0, 100.0, -100.0}) {
        CAPTURE(score);
        CAPTURE(scale);
        CAPTURE(bound);
        const BroadcastMatrix<T> source(s.data(), 2, 1, bound);
        const auto energy = make_stored_energy<T>(source, 1, 2, scale);
        check_refused(scores_of(*energy), "1");
        // It is still allowed: only a ready-made -inf forbids.
        CHECK(scores_of(*energy).allowed_counts().keys_of_query == std::vector<Index>{2});
      }
    }
  }
}

namespace {

// A random pattern of everything that can forbid pairs, and the remaining pairs.
template <class T>
struct Pattern {
  Index rows, cols;
  Causal causal;
  std::vector<T> stored, bias;  // empty: not used
  std::vector<std::uint8_t> mask;

  explicit Pattern(Random& random)
      : rows(random_size(random, 1, 200)),
        // Beyond 1024 columns allowed_counts() visits more than one tile.
        cols(chance(random, 0.1) ? random_index(random, 1000, 1500) : random_size(random, 1, 200)),
        causal(all_causal[random_index(random, 0, 2)]) {
    const auto count = static_cast<std::size_t>(rows * cols);
    const auto some_forbidden = [&](std::vector<T>& values) {
      values.assign(count, T{2});
      for (T& value : values) {
        if (chance(random, 0.2)) value = static_cast<T>(-infinity);
      }
    };
    if (chance(random, 0.3)) some_forbidden(stored);
    if (chance(random, 0.3)) some_forbidden(bias);
    if (chance(random, 0.4)) {
      mask.resize(count);
      for (auto& may : mask) {
        may = static_cast<std::uint8_t>(std::max<Index>(0, random_index(random, -255, 255)));
      }
    }
  }

  bool allows(Index i, Index j) const {
    const auto at = static_cast<std::size_t>(i * cols + j);
    if (!stored.empty() && std::isinf(stored[at])) return false;
    if (!bias.empty() && std::isinf(bias[at])) return false;
    if (!mask.empty() && mask[at] == 0) return false;
    return causally_allowed(i, j);
  }

  bool causally_allowed(Index i, Index j) const {
    const Index ahead = causal == Causal::bottom_right ? cols - rows : 0;
    return causal == Causal::none || j <= i + ahead;
  }

  template <class Body>
  void with_scores(const Body& body) const {
    const BroadcastMatrix<T> stored_source(stored.data(), cols, 1);
    const BroadcastMatrix<T> bias_source(bias.data(), cols, 1, 2);
    const BroadcastMatrix<std::uint8_t> mask_source(mask.data(), cols, 1);
    const auto energy = stored.empty() ? make_zero_energy<T>(rows, cols)
                                       : make_stored_energy<T>(stored_source, rows, cols, 1);
    body(scores_of<T>(*energy, bias.empty() ? nullptr : &bias_source,
                      mask.empty() ? nullptr : &mask_source, causal));
  }
};

}  // namespace

TEST_CASE_TEMPLATE("support counts the allowed pairs", T, float, double) {
  Random random(71);
  for (int n = 0; n < 120; ++n) {
    const Pattern<T> pattern(random);
    AllowedCounts want;
    want.keys_of_query.assign(static_cast<std::size_t>(pattern.rows), 0);
    want.queries_of_key.assign(static_cast<std::size_t>(pattern.cols), 0);
    std::vector<T> scores;
    pattern.with_scores([&](const Scores<T>& s) { scores = score_values(s); });
    bool filled_alike = true;
    for (Index i = 0; i < pattern.rows; ++i) {
      for (Index j = 0; j < pattern.cols; ++j) {
        const bool allowed = pattern.allows(i, j);
        want.keys_of_query[static_cast<std::size_t>(i)] += allowed ? 1 : 0;
        want.queries_of_key[static_cast<std::size_t>(j)] += allowed ? 1 : 0;
        const auto at = static_cast<std::size_t>(i * pattern.cols + j);
        filled_alike = filled_alike && std::isinf(scores[at]) != allowed;
      }
    }
    CAPTURE(n);
    CHECK(filled_alike);
    AllowedCounts got;
    pattern.with_scores([&](const Scores<T>& s) { got = s.allowed_counts(); });
    CHECK(got.keys_of_query == want.keys_of_query);
    CHECK(got.queries_of_key == want.queries_of_key);
  }
}

TEST_CASE("the counts of a support") {
  AllowedCounts allowed;
  allowed.keys_of_query = {0, 3, 0, 2};
  allowed.queries_of_key = {2, 2, 1, 0, 0};
  CHECK(allowed.empty_queries() == 2);
  CHECK(allowed.empty_keys() == 2);
  CHECK(allowed.most_keys() == 3);
  CHECK(AllowedCounts{}.most_keys() == 0);
}

TEST_CASE("empty is true if causality forbids all pairs, and false if a pair is allowed") {
  Random random(72);
  int empty = 0;
  for (int n = 0; n < 400; ++n) {
    const Pattern<float> pattern(random);
    TileRange range;
    range.row0 = random_index(random, 0, pattern.rows - 1);
    range.rows = random_index(random, 0, std::min<Index>(30, pattern.rows - range.row0));
    range.col0 = random_index(random, 0, pattern.cols - 1);
    range.cols = random_index(random, 0, std::min<Index>(30, pattern.cols - range.col0));
    bool any = false;
    for (Index i = range.row0; i < range.row0 + range.rows; ++i) {
      for (Index j = range.col0; j < range.col0 + range.cols; ++j) {
        any = any || pattern.causally_allowed(i, j);
      }
    }
    empty += !any ? 1 : 0;
    pattern.with_scores([&](const Scores<float>& s) { CHECK(s.empty(range) == !any); });
  }
  CHECK(empty > 40);
  CHECK(empty < 360);
}
