#include "collapse/clusters.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "random_problem.hpp"

using namespace attn;
using namespace attn::testing;
using collapse::covariance_factor;

namespace {

// A Aᵀ for random A (d, rank).
std::vector<double> random_covariance(Random& random, Index d, Index rank) {
  std::normal_distribution<double> normal;
  std::vector<double> a(static_cast<std::size_t>(d * rank));
  for (double& value : a) value = normal(random);
  std::vector<double> covariance(static_cast<std::size_t>(d * d), 0.0);
  for (Index r = 0; r < d; ++r) {
    for (Index c = 0; c < d; ++c) {
      for (Index b = 0; b < rank; ++b) {
        covariance[static_cast<std::size_t>(r * d + c)] +=
            a[static_cast<std::size_t>(r * rank + b)] * a[static_cast<std::size_t>(c * rank + b)];
      }
    }
  }
  return covariance;
}

}  // namespace

TEST_CASE("factors of covariances, singular ones too") {
  Random random(82);
  for (const Index d : {1, 2, 3, 7, 20}) {
    for (const Index rank : {d, d - 1, Index{1}, Index{0}}) {
      CAPTURE(d);
      CAPTURE(rank);
      const std::vector<double> covariance = random_covariance(random, d, rank);
      const auto factor = covariance_factor(covariance, d);
      REQUIRE(factor);
      for (Index r = 0; r < d; ++r) {
        for (Index c = 0; c < d; ++c) {
          const auto at = [&](Index row, Index col) {
            return (*factor)[static_cast<std::size_t>(row * d + col)];
          };
          if (c > r) CHECK(at(r, c) == 0);
          double sum = 0;
          for (Index b = 0; b < d; ++b) sum += at(r, b) * at(c, b);
          // If a pivot counts as 0, the square root of its rounding remains.
          const double limit = rank == d ? 1e-13 : 1e-6;
          CHECK(std::abs(sum - covariance[static_cast<std::size_t>(r * d + c)]) <=
                limit * static_cast<double>(d) * 10);
        }
      }
    }
  }
}

TEST_CASE("an invalid covariance is refused") {
  const double nan = std::nan("");
  const double inf = std::numeric_limits<double>::infinity();
  CHECK_FALSE(covariance_factor(std::vector<double>{-1}, 1));
  CHECK_FALSE(covariance_factor(std::vector<double>{nan}, 1));
  CHECK_FALSE(covariance_factor(std::vector<double>{inf}, 1));
  CHECK_FALSE(covariance_factor(std::vector<double>{1, 2, 2, 1}, 2));
  CHECK_FALSE(covariance_factor(std::vector<double>{0, 1, 1, 1}, 2));
  CHECK_FALSE(covariance_factor(std::vector<double>{1, nan, nan, 1}, 2));
  CHECK(covariance_factor(std::vector<double>{1, 1, 1, 1}, 2));
}

TEST_CASE("the validity of a covariance does not depend on its unit") {
  for (const double unit : {1e-250, 1e-200, 1.0, 1e200, 1e300}) {
    CAPTURE(unit);
    const auto factor = [&](std::vector<double> covariance) {
      for (double& value : covariance) value *= unit;
      return covariance_factor(covariance, 3);
    };
    CHECK_FALSE(factor({1, 1, 0.1, 1, 1, -0.1, 0.1, -0.1, 1}));
    CHECK(factor({1, 1, 0.3, 1, 1, 0.3, 0.3, 0.3, 1}));
    CHECK_FALSE(factor({1, 2, 0, 2, 1, 0, 0, 0, 1}));
  }
}

TEST_CASE("a diagonal covariance draws the same points as its variances, to the bit") {
  Random random(83);
  std::normal_distribution<double> normal;
  collapse::Clusters full;
  full.dimension = 3;
  full.centres = {{1, -2, 3}, {1e3, 0.1, -7}};
  full.factors = {*covariance_factor(std::vector<double>{0.1, 0, 0, 0, 2, 0, 0, 0, 0}, 3),
                  *covariance_factor(std::vector<double>{7, 0, 0, 0, 7, 0, 0, 0, 7}, 3)};
  collapse::Clusters diagonal = full;
  diagonal.factors = {{std::sqrt(0.1), std::sqrt(2.0), 0}, std::vector<double>(3, std::sqrt(7.0))};
  const std::vector<std::int64_t> labels = {1, 0, 0, 1, 1};
  std::vector<double> z(15);
  for (double& value : z) value = normal(random);
  std::vector<double> a = z, b = z;
  full.place(labels, a.data());
  diagonal.place(labels, b.data());
  CHECK(a == b);
  CHECK(a[0] == 1e3 + std::sqrt(7.0) * z[0]);
  CHECK(a[5] == 3);
}

TEST_CASE("points have the requested covariance") {
  Random random(84);
  const Index d = 4;
  const std::vector<double> covariance = random_covariance(random, d, d);
  collapse::Clusters clusters;
  clusters.dimension = d;
  clusters.centres = {std::vector<double>(4, 0.0)};
  clusters.factors = {*covariance_factor(covariance, d)};
  std::normal_distribution<double> normal;
  constexpr Index count = 200000;
  std::vector<double> points(static_cast<std::size_t>(count * d));
  for (double& value : points) value = normal(random);
  clusters.place(std::vector<std::int64_t>(count, 0), points.data());
  for (std::size_t r = 0; r < 4; ++r) {
    for (std::size_t c = 0; c < 4; ++c) {
      double sum = 0;
      for (std::size_t n = 0; n < count; ++n) sum += points[n * 4 + r] * points[n * 4 + c];
      const double size = std::sqrt(covariance[r * 4 + r] * covariance[c * 4 + c]);
      // Six standard deviations of the estimate, each at most √2 of the size.
      CHECK(std::abs(sum / count - covariance[r * 4 + c]) <= 6 * 1.42 * size / std::sqrt(count));
    }
  }
}
