#include "collapse/self_attention.hpp"

#include <doctest/doctest.h>

#include <cmath>

#include "attnkit/error.hpp"
#include "collapse/closed_form.hpp"
#include "collapse/cluster_statistics.hpp"
#include "guarded.hpp"
#include "random_problem.hpp"

using namespace attn;
using namespace attn::testing;
using collapse::attend_to_each_other;
using collapse::cluster_statistics;
using collapse::SelfAttention;

namespace {

template <class T>
reference::Matrix matrix_of(const Guarded<T>& rows) {
  reference::Matrix matrix(rows.rows(), rows.cols());
  for (Index i = 0; i < rows.rows(); ++i) {
    for (Index c = 0; c < rows.cols(); ++c) matrix(i, c) = rows.view()(i, c);
  }
  return matrix;
}

// A step by whole matrices in long double.
reference::Matrix expected_step(const reference::Matrix& x, const SelfAttention& options) {
  const reference::Matrix none;
  const reference::Matrix scores =
      reference::scores(options.energy, options.scale, x, x, none, none, Causal::none);
  const reference::Result found =
      reference::attend(scores, options.scheme.scheme, options.scheme.hybrid,
                        options.scheme.stopping.iterations.value_or(1));
  reference::Matrix next = reference::output(found.weights, x);
  if (!options.residual) return next;
  for (std::size_t n = 0; n < next.values.size(); ++n) next.values[n] += x.values[n];
  return next;
}

template <class T>
void check_step(Random& random, Index points, Index dimension, Scheme scheme) {
  SelfAttention options;
  options.scheme.scheme = scheme;
  options.scheme.hybrid = 0.3;
  if (scheme == Scheme::sinkhorn) options.scheme.stopping.iterations = 3;
  options.energy = chance(random, 0.5) ? EnergyKind::dot : EnergyKind::gaussian;
  options.scale = chance(random, 0.5) ? 1 : 0.6;
  options.residual = chance(random, 0.5);
  CAPTURE(points);
  CAPTURE(dimension);
  CAPTURE(static_cast<int>(scheme));
  CAPTURE(options.residual);
  std::normal_distribution<double> normal(0, 1 / std::sqrt(static_cast<double>(dimension)));
  Guarded<T> x(points, dimension);
  x.fill([&] { return static_cast<T>(normal(random)); });
  Guarded<T> next(points, dimension);
  const Guarded<T>& constant = x;
  attend_to_each_other<T>(constant.view(), options, next.view(), 1);
  const reference::Matrix expected = expected_step(matrix_of(x), options);
  long double largest = 0;
  for (const long double value : expected.values) largest = std::max(largest, std::abs(value));
  // The bound for outputs in tests/README.md, for scores of about 10.
  const double limit = sizeof(T) == sizeof(float) ? 3e-5 : 1e-12;
  for (Index i = 0; i < points; ++i) {
    for (Index c = 0; c < dimension; ++c) {
      CHECK(std::abs(next.view()(i, c) - expected(i, c)) <= limit * largest);
    }
  }
  CHECK(next.intact());
  Guarded<T> again(points, dimension);
  attend_to_each_other<T>(constant.view(), options, again.view(), 3);
  CHECK(again == next);
}

// r N points at a and N at −a.
Guarded<double> point_masses(Index above, Index below, double a) {
  Guarded<double> x(above + below, 1);
  for (Index i = 0; i < above + below; ++i) x.view()(i, 0) = i < above ? a : -a;
  return x;
}

}  // namespace

TEST_CASE("a step is self-attention of the points") {
  Random random(85);
  for (const Scheme scheme : all_schemes) {
    for (const auto& [points, dimension] :
         {std::pair<Index, Index>{1, 1}, {2, 3}, {17, 2}, {65, 5}, {257, 2}, {130, 33}}) {
      check_step<double>(random, points, dimension, scheme);
      check_step<float>(random, points, dimension, scheme);
    }
  }
}

TEST_CASE("point masses give the closed form") {
  for (const auto& [above, below] : {std::pair<Index, Index>{1, 1}, {10, 1}, {1, 10}, {350, 50}}) {
    for (const double a : {0.5, 1.0, 2.0}) {
      for (const EnergyKind energy : {EnergyKind::dot, EnergyKind::gaussian}) {
        for (const Scheme scheme : {Scheme::unas, Scheme::dnas}) {
          CAPTURE(a);
          const Guarded<double> x = point_masses(above, below, a);
          Guarded<double> next(above + below, 1);
          SelfAttention options;
          options.scheme.scheme = scheme;
          options.energy = energy;
          attend_to_each_other<double>(x.view(), options, next.view(), 2);
          std::vector<std::int64_t> labels(static_cast<std::size_t>(above + below), 1);
          std::fill_n(labels.begin(), above, 0);
          const Guarded<double>& after = next;
          const auto found = cluster_statistics<double>(after.view(), labels, 2, 1.0);
          const collapse::Distances expected =
              collapse::distances(static_cast<double>(above) / static_cast<double>(below), a);
          const double distance = scheme == Scheme::unas ? expected.unas : expected.dnas;
          CHECK(std::abs(found.least_distance() - distance) <= 1e-12 * distance);
          CHECK(found.spread[0] <= 1e-12);
        }
      }
    }
  }
}

TEST_CASE("points that exceed the format are an error") {
  SelfAttention options;
  options.residual = true;
  options.scale = 1e-37;
  Guarded<float> x(2, 1);
  x.fill([] { return 3e38F; });
  const Guarded<float>& constant = x;
  Guarded<float> next(2, 1);
  CHECK_THROWS_AS(attend_to_each_other<float>(constant.view(), options, next.view(), 1), Error);
}

TEST_CASE("statistics of clusters") {
  Random random(86);
  std::normal_distribution<double> normal;
  for (const double offset : {0.0, 1e8}) {
    for (const auto& [points, dimension, clusters] :
         {std::array<Index, 3>{1, 1, 1}, {5, 2, 2}, {300, 3, 7}}) {
      Guarded<double> x(points, dimension);
      x.fill([&] { return offset + normal(random); });
      std::vector<std::int64_t> labels;
      for (Index n = 0; n < points; ++n) labels.push_back(n % clusters);
      const Guarded<double>& constant = x;
      const double width = 0.8;
      const auto found = cluster_statistics<double>(constant.view(), labels, clusters, width);
      std::vector<std::vector<long double>> centre;
      for (Index c = 0; c < clusters; ++c) {
        std::vector<long double> sum(static_cast<std::size_t>(dimension), 0);
        long double count = 0;
        for (Index n = c; n < points; n += clusters, ++count) {
          for (Index k = 0; k < dimension; ++k) sum[static_cast<std::size_t>(k)] += x.view()(n, k);
        }
        long double spread = 0;
        for (long double& value : sum) value /= count;
        for (Index n = c; n < points; n += clusters) {
          for (Index k = 0; k < dimension; ++k) {
            const long double off = x.view()(n, k) - sum[static_cast<std::size_t>(k)];
            spread += off * off;
          }
        }
        // A rounding of the centre.
        const double limit = 1e-15 * (1 + offset);
        CHECK(std::abs(found.spread[static_cast<std::size_t>(c)] - std::sqrt(spread / count)) <=
              2 * limit);
        for (Index k = 0; k < dimension; ++k) {
          CHECK(std::abs(found.centre[static_cast<std::size_t>(c * dimension + k)] -
                         sum[static_cast<std::size_t>(k)]) <= limit);
        }
        centre.push_back(sum);
      }
      long double log_modes = 0;
      long double least = HUGE_VALL;
      for (Index a = 0; a < clusters; ++a) {
        long double alike = 0;
        for (Index b = 0; b < clusters; ++b) {
          long double square = 0;
          for (std::size_t k = 0; k < static_cast<std::size_t>(dimension); ++k) {
            const long double off =
                centre[static_cast<std::size_t>(a)][k] - centre[static_cast<std::size_t>(b)][k];
            square += off * off;
          }
          if (a != b) least = std::min(least, std::sqrt(square));
          CHECK(std::abs(found.distance[static_cast<std::size_t>(a * clusters + b)] -
                         std::sqrt(square)) <= 4e-15 * (1 + offset));
          alike += std::exp(-square / (2 * width * width));
        }
        log_modes -= std::log(alike / clusters) / clusters;
      }
      CHECK(std::abs(found.modes - std::exp(log_modes)) <= 1e-13 * (1 + offset));
      if (clusters == 1) {
        CHECK(std::isnan(found.least_distance()));
        CHECK(found.modes == 1);
      } else {
        CHECK(std::abs(found.least_distance() - least) <= 4e-15 * (1 + offset));
      }
    }
  }
}

TEST_CASE("the number of modes lies between one and the number of clusters") {
  const std::vector<std::int64_t> labels = {0, 1, 2};
  Guarded<double> x(3, 1);
  const Guarded<double>& constant = x;
  const auto modes = [&](double apart, double width) {
    for (Index i = 0; i < 3; ++i) x.view()(i, 0) = apart * static_cast<double>(i);
    return cluster_statistics<double>(constant.view(), labels, 3, width).modes;
  };
  CHECK(std::abs(modes(0, 1) - 1) <= 1e-15);
  CHECK(std::abs(modes(100, 1) - 3) <= 1e-14);
  CHECK(std::abs(modes(100, 1e6) - 1) <= 1e-8);
  CHECK(modes(1, 1) > 1);
  CHECK(modes(1, 1) < modes(2, 1));
}

TEST_CASE("distances of clusters do not depend on the unit and are never infinite") {
  const std::vector<std::int64_t> labels = {0, 0, 1, 1};
  const auto found = [&](double unit) {
    Guarded<double> points(4, 2);
    const double values[] = {0.75, 0, 0.25, 0.5, -0.5, 0.25, -0.25, -0.5};
    std::size_t next = 0;
    points.fill([&] { return unit * values[next++]; });
    const Guarded<double>& constant = points;
    return cluster_statistics<double>(constant.view(), labels, 2, 1.0);
  };
  const collapse::ClusterStatistics usual = found(1);
  for (const int exponent : {-1000, -600, -530, 500, 520, 1000}) {
    CAPTURE(exponent);
    const double unit = std::ldexp(1.0, exponent);
    const collapse::ClusterStatistics other = found(unit);
    for (std::size_t k = 0; k < 4; ++k) CHECK(other.distance[k] == unit * usual.distance[k]);
    for (std::size_t k = 0; k < 2; ++k) CHECK(other.spread[k] == unit * usual.spread[k]);
  }
  Guarded<double> apart(2, 1);
  apart.view()(0, 0) = 1.7e308;
  apart.view()(1, 0) = -1.7e308;
  const Guarded<double>& constant = apart;
  const std::vector<std::int64_t> own = {0, 1};
  CHECK_THROWS_AS(cluster_statistics<double>(constant.view(), own, 2, 1.0), Error);
}
