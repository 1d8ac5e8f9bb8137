#include "scheme/multi_view.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "random_problem.hpp"
#include "reference/reference.hpp"
#include "tensor/random.hpp"
#include "thrown_error.hpp"

using namespace attn;
using namespace attn::testing;

namespace {

template <class T>
struct NormalMatrix {
  Index rows = 0;
  Index cols = 0;
  std::vector<T> values;

  NormalMatrix() = default;
  NormalMatrix(Index row_count, Index col_count, double spread, Random& random)
      : rows(row_count), cols(col_count), values(static_cast<std::size_t>(row_count * col_count)) {
    std::normal_distribution<double> normal(0, spread);
    for (T& value : values) value = static_cast<T>(normal(random));
  }
  MatrixView<const T> view() const { return {values.data(), rows, cols}; }
  reference::Matrix exact() const {
    reference::Matrix m(rows, cols);
    for (std::size_t n = 0; n < values.size(); ++n) m.values[n] = values[n];
    return m;
  }
};

template <class T>
struct Secondary {
  NormalMatrix<T> features, wk;
  std::vector<std::uint8_t> may;  // empty: all
  std::optional<BroadcastMatrix<std::uint8_t>> mask;
};

struct Wanted {
  reference::Matrix out;
  long double smallest_deviation = std::numeric_limits<long double>::infinity();
  long double largest_sum = 0;
  double largest_score = 0;
};

// The formula of the contract, in long double.
template <class T>
Wanted wanted(const NormalMatrix<T>& primary, const NormalMatrix<T>& wq,
              const std::vector<Secondary<T>>& views, const MultiViewOptions<T>& options) {
  Wanted want;
  want.out = primary.exact();
  const auto queries =
      wq.rows > 0 ? reference::project(primary.exact(), wq.exact(), {}) : primary.exact();
  for (const auto& view : views) {
    const auto features = view.features.exact();
    const auto keys =
        view.wk.rows > 0 ? reference::project(features, view.wk.exact(), {}) : features;
    reference::Matrix mask;
    if (!view.may.empty()) {
      mask = reference::Matrix(primary.rows, features.rows);
      for (std::size_t n = 0; n < view.may.size(); ++n) mask.values[n] = view.may[n];
    }
    const auto s = reference::scores(EnergyKind::scaled_dot, options.scale, queries, keys, {}, mask,
                                     Causal::none);
    want.largest_score = std::max(want.largest_score, largest_score(s));
    const auto found = reference::attend(s, options.scheme.scheme, options.scheme.hybrid,
                                         options.scheme.iterations.value_or(1));
    const auto gathered = reference::output(found.weights, features);
    for (std::size_t n = 0; n < gathered.values.size(); ++n) {
      want.out.values[n] += gathered.values[n];
    }
  }
  const Index width = primary.cols;
  for (Index i = 0; i < primary.rows; ++i) {
    long double mean = 0;
    for (Index c = 0; c < width; ++c) {
      mean += want.out(i, c) / static_cast<long double>(width);
      want.largest_sum = std::max(want.largest_sum, std::abs(want.out(i, c)));
    }
    long double variance = 0;
    for (Index c = 0; c < width; ++c) {
      variance +=
          (want.out(i, c) - mean) * (want.out(i, c) - mean) / static_cast<long double>(width);
    }
    const long double deviation = std::sqrt(variance + options.epsilon);
    want.smallest_deviation = std::min(want.smallest_deviation, deviation);
    for (Index c = 0; c < width; ++c) {
      const auto at = static_cast<std::size_t>(c);
      want.out(i, c) = (want.out(i, c) - mean) / deviation;
      if (!options.gain.empty()) want.out(i, c) *= options.gain[at];
      if (!options.shift.empty()) want.out(i, c) += options.shift[at];
    }
  }
  return want;
}

template <class T>
void check_random(Random& random, Scheme scheme) {
  const Index things = random_size(random, 1, 90);
  const Index width = random_size(random, 2, 40);
  const bool projected = chance(random, 0.7);
  const Index depth = projected ? random_size(random, 1, 30) : width;
  const double spread = 1 / std::sqrt(static_cast<double>(width));
  const NormalMatrix<T> primary(things, width, 1, random);
  const NormalMatrix<T> wq =
      projected ? NormalMatrix<T>(width, depth, spread, random) : NormalMatrix<T>();
  std::vector<Secondary<T>> views(static_cast<std::size_t>(random_index(random, 0, 3)));
  std::vector<SecondaryView<T>> secondary;
  for (auto& view : views) {
    const Index count = random_size(random, 1, 90);
    view.features = NormalMatrix<T>(count, width, 1, random);
    if (projected) view.wk = NormalMatrix<T>(width, depth, spread, random);
    if (chance(random, 0.4)) {
      for (Index n = 0; n < things * count; ++n) view.may.push_back(chance(random, 0.5) ? 1 : 0);
      for (Index j = 0; j < count; ++j) view.may[static_cast<std::size_t>(j)] = 0;
      view.mask.emplace(view.may.data(), count, 1);
    }
    secondary.push_back({view.features.view(), view.wk.view(), view.mask ? &*view.mask : nullptr});
  }
  const NormalMatrix<T> gain(1, width, 1, random);
  const NormalMatrix<T> shift(1, width, 1, random);
  MultiViewOptions<T> options;
  options.scheme.scheme = scheme;
  options.scheme.hybrid = 0.3;
  options.scheme.iterations = 3;
  if (chance(random, 0.5)) options.gain = gain.values;
  if (chance(random, 0.5)) options.shift = shift.values;
  NormalMatrix<T> out(things, width, 1, random);
  const auto found = multi_view<T>(primary.view(), wq.view(), secondary, options,
                                   {out.values.data(), things, width}, 2);
  CHECK(found.size() == views.size());
  const Wanted want = wanted(primary, wq, views, options);
  // Each sum is within the tolerance of attention; dividing by the deviation magnifies the error.
  const auto magnified = static_cast<double>((1 + want.largest_sum) /
                                             std::min<long double>(1, want.smallest_deviation));
  const double views_added = 1 + static_cast<double>(views.size());
  CAPTURE(things);
  CAPTURE(width);
  CAPTURE(views.size());
  CHECK(relative_error(out.values, want.out.values) <=
        2 * views_added * magnified * tolerance<T>(want.largest_score));
}

}  // namespace

TEST_CASE_TEMPLATE("multi-view attention agrees with its formula", T, float, double) {
  Random random(121);
  for (int n = 0; n < 15; ++n) {
    for (const Scheme scheme : all_schemes) {
      CAPTURE(n);
      CAPTURE(static_cast<int>(scheme));
      check_random<T>(random, scheme);
    }
  }
}

TEST_CASE_TEMPLATE("without views it is the layer norm, and equal features become 0", T, float,
                   double) {
  const std::vector<T> primary = {1, 3, 5, 5};
  std::vector<T> out(4, T{9});
  multi_view<T>({primary.data(), 2, 2}, {}, {}, {}, {out.data(), 2, 2}, 1);
  CHECK(out[0] == doctest::Approx(-1).epsilon(1e-5));
  CHECK(out[1] == doctest::Approx(1).epsilon(1e-5));
  CHECK(out[2] == 0);
  CHECK(out[3] == 0);
}

TEST_CASE_TEMPLATE("views of other shapes are refused", T, float, double) {
  const std::vector<T> numbers(64, T{1});
  std::vector<T> out(8);
  const auto view = [&](Index rows, Index cols) {
    return MatrixView<const T>(numbers.data(), rows, cols);
  };
  const auto message = [&](MatrixView<const T> wq, const SecondaryView<T>& secondary,
                           double epsilon = 1e-5) {
    MultiViewOptions<T> options;
    options.epsilon = epsilon;
    const Error error = thrown_error([&] {
      multi_view<T>(view(2, 4), wq, {&secondary, 1}, options, {out.data(), 2, 4}, 1);
    });
    CHECK(error.failure() == Failure::input);
    return std::string(error.what());
  };
  CHECK(contains(message({}, {view(3, 5), {}}), "a view has 5 features, expected 4"));
  CHECK(contains(message(view(4, 2), {view(3, 4), {}}), "have 4 features, expected 2"));
  CHECK(contains(message(view(3, 2), {view(3, 4), view(4, 2)}), "the queries of the primary view"));
  CHECK(contains(message({}, {view(3, 4), view(5, 4)}), "the keys of a view"));
  CHECK(contains(message({}, {view(3, 4), {}}, 0), "expected a finite number > 0"));
  CHECK(contains(message({}, {view(3, 4), {}}, std::nan("")), "expected a finite number > 0"));
}

// Most words say the same, and one says something of its own.
TEST_CASE("multi-view: an odd word is explained away by unas and not by dnas") {
  constexpr Index objects = 6;
  constexpr Index words = 8;
  constexpr Index features = 16;
  constexpr Index odd_word = 5;
  constexpr double scale = 4;
  const auto normal = [](const char* name, Index count) {
    std::vector<double> values(static_cast<std::size_t>(count));
    RandomStream(1, name).normal(0, count, values.data());
    for (double& value : values) value *= 0.2;
    return values;
  };
  // Objects and words point roughly in one direction, except the odd word, which is opposite.
  std::vector<double> seen = normal("seen", objects * features);
  std::vector<double> read = normal("read", words * features);
  for (Index i = 0; i < objects; ++i) seen[static_cast<std::size_t>(i * features)] += 3;
  for (Index j = 0; j < words; ++j) {
    read[static_cast<std::size_t>(j * features)] += j == odd_word ? -3 : 3;
  }
  const MatrixView<const double> primary(seen.data(), objects, features);
  SecondaryView<double> secondary;
  secondary.features = MatrixView<const double>(read.data(), words, features);
  for (const Scheme scheme : {Scheme::unas, Scheme::dnas}) {
    MultiViewOptions<double> options;
    options.scheme.scheme = scheme;
    options.scale = scale;
    std::vector<double> out(seen.size());
    const auto found = multi_view<double>(primary, {}, {&secondary, 1}, options,
                                          {out.data(), objects, features}, 1);
    // The sum of the odd word's weights, computed again from potentials and scores.
    double odd = 0;
    for (Index i = 0; i < objects; ++i) {
      double score = 0;
      for (Index c = 0; c < features; ++c) {
        score += primary(i, c) * secondary.features(odd_word, c);
      }
      score *= scale / std::sqrt(static_cast<double>(features));
      odd += std::exp((score - found[0].potentials.col[odd_word]) -
                      found[0].potentials.row[static_cast<std::size_t>(i)]);
    }
    if (scheme == Scheme::unas) {
      CHECK(odd < 1e-6);
    } else {
      CHECK(odd >= (1 - 1e-6) / static_cast<double>(words));
    }
    // Each row is a layer norm: of mean 0.
    for (Index i = 0; i < objects; ++i) {
      double mean = 0;
      for (Index c = 0; c < features; ++c) mean += out[static_cast<std::size_t>(i * features + c)];
      CHECK(std::abs(mean) < 1e-10);
    }
  }
}
