#include "kernel/layer_norm.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "tile_oracle.hpp"

using namespace attn;
using namespace attn::tile_oracle;

namespace {

constexpr double layer_norm_epsilon = 1e-5;

template <class T>
struct NormProblem {
  testing::Guarded<T> x, dy;
  std::vector<T> gain, shift;

  NormProblem(Index rows, Index cols, Random& random)
      : x(uniform_matrix<T>(rows, cols, random, 3)), dy(uniform_matrix<T>(rows, cols, random)) {
    for (Index c = 0; c < cols; ++c) {
      gain.push_back(static_cast<T>(uniform(random, -2, 2)));
      shift.push_back(static_cast<T>(uniform(random, -2, 2)));
    }
  }
};

// x̂ of a row in long double, and 1/√(variance + ε).
template <class T>
long double normalise(MatrixView<const T> x, Index i, std::vector<long double>& normal) {
  const auto n = static_cast<long double>(x.cols);
  long double mean = 0;
  for (Index c = 0; c < x.cols; ++c) mean += x(i, c) / n;
  long double variance = 0;
  for (Index c = 0; c < x.cols; ++c) variance += (x(i, c) - mean) * (x(i, c) - mean) / n;
  const long double inverse =
      1 / std::sqrt(variance + static_cast<long double>(layer_norm_epsilon));
  normal.clear();
  for (Index c = 0; c < x.cols; ++c) normal.push_back((x(i, c) - mean) * inverse);
  return inverse;
}

}  // namespace

TEST_CASE_TEMPLATE("layer normalisation and its gradient against loops", T, float, double) {
  on_every_target([] {
    Random random(91);
    for (const Index cols : tile_sizes) {
      if (cols == 0) continue;
      const Index rows = 1 + cols % 5;
      CAPTURE(cols);
      const NormProblem<T> p(rows, cols, random);
      const auto at = [](Index c) { return static_cast<std::size_t>(c); };
      testing::Guarded<T> y(rows, cols);
      testing::Guarded<T> dx(rows, cols);
      std::vector<T> mean(at(rows)), inverse(at(rows));
      std::vector<T> dgain(at(cols), T{1}), dshift(at(cols), T{-1});
      kernel::layer_norm(p.x.view(), p.gain.data(), p.shift.data(), layer_norm_epsilon, y.view(),
                         mean.data(), inverse.data());
      kernel::layer_norm_gradient(p.x.view(), mean.data(), inverse.data(), p.gain.data(),
                                  p.dy.view(), dx.view(), dgain.data(), dshift.data());
      CHECK(y.intact());
      CHECK(dx.intact());

      std::vector<long double> want_gain(at(cols), 1), want_shift(at(cols), -1);
      std::vector<long double> normal;
      Worst error;
      for (Index i = 0; i < rows; ++i) {
        const long double factor = normalise(p.x.view(), i, normal);
        long double sum = 0;
        long double product = 0;
        for (Index c = 0; c < cols; ++c) {
          const long double g = p.dy.view()(i, c) * static_cast<long double>(p.gain[at(c)]);
          sum += g / static_cast<long double>(cols);
          product += g * normal[at(c)] / static_cast<long double>(cols);
          want_gain[at(c)] += p.dy.view()(i, c) * normal[at(c)];
          want_shift[at(c)] += p.dy.view()(i, c);
        }
        // The mean, up to 3, is rounded to T, which costs |mean| · inverse roundings of x̂; sums in
        // T have up to 64 terms a lane.
        const long double unit = (70 + 8 * factor) * rounding<T>;
        for (Index c = 0; c < cols; ++c) {
          const long double g = p.dy.view()(i, c) * static_cast<long double>(p.gain[at(c)]);
          const long double size = 1 + std::abs(normal[at(c)]);
          error.add(y.view()(i, c), p.gain[at(c)] * normal[at(c)] + p.shift[at(c)],
                    4 * unit * size);
          error.add(dx.view()(i, c), factor * (g - sum - normal[at(c)] * product),
                    16 * unit * factor * size * size);
        }
      }
      for (Index c = 0; c < cols; ++c) {
        error.add(dgain[at(c)], want_gain[at(c)], 1e3 * rounding<T> * 16);
        error.add(dshift[at(c)], want_shift[at(c)], 16 * rounding<T>);
      }
      CHECK(error.value() <= 1);
    }
  });
}

TEST_CASE_TEMPLATE("a row of equal numbers becomes the shift", T, float, double) {
  // Its variance is 0, and only epsilon keeps the inverse finite.
  const std::vector<T> x(9, T{0.75});
  const std::vector<T> gain(9, T{3});
  const std::vector<T> shift(9, T{-0.5});
  std::vector<T> y(9);
  T mean = 0;
  T inverse = 0;
  kernel::layer_norm({x.data(), 1, 9}, gain.data(), shift.data(), layer_norm_epsilon,
                     MatrixView<T>(y.data(), 1, 9), &mean, &inverse);
  CHECK(y == shift);
  CHECK(mean == T{0.75});
}

TEST_CASE_TEMPLATE("layer normalisation keeps NaN", T, float, double) {
  std::vector<T> x(7, T{1});
  x[3] = std::numeric_limits<T>::quiet_NaN();
  const std::vector<T> ones(7, T{1});
  std::vector<T> y(7, T{0});
  T mean = 0;
  T inverse = 0;
  kernel::layer_norm({x.data(), 1, 7}, ones.data(), ones.data(), layer_norm_epsilon,
                     MatrixView<T>(y.data(), 1, 7), &mean, &inverse);
  for (const T value : y) CHECK(std::isnan(value));
}
