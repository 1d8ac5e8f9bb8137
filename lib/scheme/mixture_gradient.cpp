#include "scheme/mixture_gradient.hpp"

#include <algorithm>
#include <cmath>

#include "gradient/adjoints.hpp"
#include "gradient/centred_values.hpp"
#include "gradient/gradient.hpp"
#include "gradient/pair_sums.hpp"
#include "pass/output.hpp"
#include "scheme/scheme.hpp"
#include "score/centred_pair.hpp"

namespace attn {
namespace {

// Points minus their mean. This costs no digits, as all gradients depend on differences only.
struct Around {
  PooledVector<double> mean;
  Buffer<double> storage;
  MatrixView<const double> points;

  explicit Around(MatrixView<const double> given)
      : mean(static_cast<std::size_t>(given.cols), 0.0), storage(given.rows * given.cols) {
    add_rows(given, mean);
    for (double& m : mean) m /= static_cast<double>(given.rows);
    points = centred(given, mean, storage);
  }

  double from_mean(double coordinate, Index axis) const {
    return coordinate - mean[static_cast<std::size_t>(axis)];
  }
};

double square_norm(const double* row, Index cols) {
  double sum = 0;
  for (Index c = 0; c < cols; ++c) sum += row[c] * row[c];
  return sum;
}

// The adjoint of the scores: with dS, A_i = Σ_j dS_ij k_j, B_i = Σ_j dS_ij, C_i = Σ_j dS_ij ‖k_j‖²,
//
//   dq_i = (A_i − B_i q_i)/σ_i²,   d log β_i = B_i,
//   dσ_i² = (C_i − 2⟨A_i, q_i⟩ + B_i ‖q_i‖²)/(2σ_i⁴) − d B_i/(2σ_i²),
//   dk_j = Σ_i dS_ij (q_i − k_j)/σ_i²,
//
// around the mean of the points: the products of dS with (k_j, ‖k_j‖², 1) and (q_i, 1)/σ_i².
class MixtureSink final : public PairSink<double> {
 public:
  MixtureSink(const MixtureData& data, const Mixture& mixture, MixtureGradients& found,
              MatrixView<double> grad_points)
      : around_(data.points),
        mixture_(mixture),
        found_(found),
        grad_points_(grad_points),
        depth_(mixture.dimension),
        keys_(data.points.rows * (depth_ + 2)),
        queries_(mixture.components * (depth_ + 1)),
        by_query_(mixture.components * (depth_ + 2)),
        by_key_(data.points.rows * (depth_ + 1)),
        sums_({queries_.data(), mixture.components, depth_ + 1},
              {keys_.data(), data.points.rows, depth_ + 2},
              {by_query_.data(), mixture.components, depth_ + 2},
              {by_key_.data(), data.points.rows, depth_ + 1}) {
    for (Index j = 0; j < data.points.rows; ++j) {
      double* const to = keys_.data() + j * (depth_ + 2);
      std::copy_n(around_.points.row(j), depth_, to);
      to[depth_] = square_norm(to, depth_);
      to[depth_ + 1] = 1;
    }
    for (Index i = 0; i < mixture.components; ++i) {
      const double precision = 1 / mixture.variance[static_cast<std::size_t>(i)];
      double* const to = queries_.data() + i * (depth_ + 1);
      for (Index c = 0; c < depth_; ++c) to[c] = centre(i, c) * precision;
      to[depth_] = precision;
    }
  }

  void finish() override {
    for (Index i = 0; i < mixture_.components; ++i) finish_component(i);
    for (Index j = 0; j < grad_points_.rows; ++j) {
      const double* const sums = by_key_.data() + j * (depth_ + 1);
      for (Index c = 0; c < depth_; ++c) {
        grad_points_(j, c) += sums[c] - sums[depth_] * around_.points(j, c);
      }
    }
  }

 private:
  PairSums<double>& sums() override { return sums_; }
  double centre(Index i, Index c) const { return around_.from_mean(mixture_.centres()(i, c), c); }

  void finish_component(Index i) {
    const auto at = static_cast<std::size_t>(i);
    const double* const sums = by_query_.data() + i * (depth_ + 2);
    const double squares = sums[depth_], total = sums[depth_ + 1];
    const double variance = mixture_.variance[at];
    double distances = squares;
    for (Index c = 0; c < depth_; ++c) {
      const double q = centre(i, c);
      found_.centre[i * depth_ + c] = (sums[c] - total * q) / variance;
      distances += q * (total * q - 2 * sums[c]);
    }
    found_.log_prior[at] = total;
    found_.variance[at] =
        (distances / variance - static_cast<double>(depth_) * total) / (2 * variance);
  }

  Around around_;
  const Mixture& mixture_;
  MixtureGradients& found_;
  MatrixView<double> grad_points_;
  Index depth_;
  Buffer<double> keys_;
  Buffer<double> queries_;
  Buffer<double> by_query_;
  Buffer<double> by_key_;
  PairSums<double> sums_;
};

}  // namespace

MixtureGradients::MixtureGradients(Index components, Index dimension)
    : centre(components * dimension),
      log_prior(static_cast<std::size_t>(components), 0.0),
      variance(static_cast<std::size_t>(components), 0.0) {
  std::fill(centre.begin(), centre.end(), 0.0);
}

MixtureGradients differentiate_mixture(const MixtureData& data, const Mixture& mixture,
                                       const MixtureUse& use, MatrixView<double> grad_points,
                                       MatrixView<double> grad_values, int threads) {
  const MixtureScores<double> expectation(data, mixture);
  Forward<double> forward;
  forward.scores = &expectation.scores();
  forward.options.scheme = Scheme::dnas;
  Buffer<double> out(mixture.components * use.values.cols);
  Output<double> means(use.values, {out.data(), mixture.components, use.values.cols}, use.dropout);
  const Attention attention =
      attend<double>(expectation.scores(), forward.options, {&means}, threads);
  forward.attention = &attention;
  forward.v = use.values;
  forward.out = {out.data(), mixture.components, use.values.cols};
  forward.grad_out = use.grad_out;
  forward.dropout = use.dropout;
  const CentredValues<double> centred_values(forward, threads);
  const Forward<double>& around = centred_values.forward();
  const TileProduct<double> products(around.grad_out, around.v, 1.0, around.dropout);
  const Potentials& potentials = attention.potentials;
  // d log Σ_j ξ_ij = Σ_j π_ij d log ξ_ij: a number added to each product of the row.
  PooledVector<double> less = delta_of(around, products, potentials.row, potentials.col, threads);
  for (std::size_t i = 0; i < use.grad_log_mass.size(); ++i) less[i] -= use.grad_log_mass[i];
  MixtureGradients found(mixture.components, mixture.dimension);
  MixtureSink sink(data, mixture, found, grad_points);
  GradientTargets<double> targets;
  targets.v = grad_values;
  targets.energies.push_back(&sink);
  differentiate_weights(around, products,
                        {row_and_column_adjoint<double>(potentials.row, potentials.col, 1, less)},
                        targets, threads);
  return found;
}

MixtureGradients differentiate_em_step(const MixtureData& data, const Mixture& from,
                                       const Mixture& to, const Repetition& options,
                                       const MixtureGradients& grad_to,
                                       MatrixView<double> grad_points, int threads) {
  const Index n = data.points.rows;
  const Index m = from.components;
  const Index d = from.dimension;
  const Around around(data.points);
  // d σ_i² = Σ_j dπ_ij ‖k_j − q_i‖²/d + …: to first order, it does not change with the new q_i, the
  // mean of the keys. Values therefore have ‖k_j‖² as another axis.
  const Index width = d + (options.estimates_variance ? 1 : 0);
  const Buffer<double> values(n * width);
  const Buffer<double> grad_out(m * width);
  const Buffer<double> grad_values(n * width);
  for (Index j = 0; j < n; ++j) {
    double* const value = values.data() + j * width;
    std::copy_n(around.points.row(j), d, value);
    if (width > d) value[d] = square_norm(value, d);
  }
  for (Index i = 0; i < m; ++i) {
    const auto at = static_cast<std::size_t>(i);
    const bool varies = options.estimates_variance && to.variance[at] > options.min_variance;
    const double slope = varies ? grad_to.variance[at] / static_cast<double>(d) : 0;
    double* const grad = grad_out.data() + i * width;
    for (Index c = 0; c < d; ++c) {
      grad[c] = grad_to.centre[i * d + c] - 2 * slope * around.from_mean(to.centres()(i, c), c);
    }
    if (width > d) grad[d] = slope;
  }
  MixtureUse use;
  use.values = {values.data(), n, width};
  use.grad_out = {grad_out.data(), m, width};
  if (options.estimates_priors) use.grad_log_mass = grad_to.log_prior;
  MixtureGradients found =
      differentiate_mixture(data, from, use, grad_points, {grad_values.data(), n, width}, threads);
  for (Index j = 0; j < n; ++j) {
    const double* const grad = grad_values.data() + j * width;
    const double square = width > d ? 2 * grad[d] : 0;
    for (Index c = 0; c < d; ++c) grad_points(j, c) += grad[c] + square * around.points(j, c);
  }
  for (std::size_t i = 0; !options.estimates_priors && i < found.log_prior.size(); ++i) {
    found.log_prior[i] += grad_to.log_prior[i];
  }
  return found;
}

std::int64_t mixture_gradient_bytes(Index components, Index points, Index dimension, Index width,
                                    int threads) {
  constexpr auto number = static_cast<std::int64_t>(sizeof(double));
  const GradientSizes sizes{components, points, width, sizeof(double), threads};
  const Index lanes = gradient_lanes(points, threads);
  // Vectors around the mean; MixtureSink's vectors and sums, in lanes and packed.
  const Index sink = 2 * points * dimension + (4 + lanes) * components * (dimension + 2) +
                     4 * points * (dimension + 2);
  const Index step = 2 * points * (dimension + 1) + components * (dimension + 1);
  return mixture_energy_bytes(components, points, dimension) +
         differentiate_weights_bytes(sizes, {.open = true}) +
         attend_bytes(Scheme::dnas, components, points, sizeof(double), threads) +
         output_bytes(Scheme::dnas, components, points, width, sizeof(double), threads) +
         (sink + step + components * (width + dimension + 4)) * number;
}

}  // namespace attn
