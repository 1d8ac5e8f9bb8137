#include "fenchel/transport.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "attnkit/error.hpp"
#include "fenchel/kullback_leibler.hpp"
#include "kernel/conjugate.hpp"
#include "kernel/factor.hpp"
#include "kernel/product.hpp"
#include "kernel/tile.hpp"
#include "tensor/number_text.hpp"

namespace attn::fenchel {

ScaledCost::ScaledCost(const TransportCost& cost, Index n) : gamma_(cost.gamma), by_source_(n, n) {
  if (cost.cost.rows != n || cost.cost.cols != n) {
    throw Error(Failure::input, "the cost is " + to_string({cost.cost.rows, cost.cost.cols}) +
                                    ", expected " + to_string({n, n}));
  }
  for (Index t = 0; t < n; ++t) {
    for (Index i = 0; i < n; ++i) {
      const double value = cost.cost(t, i);
      if (!(value >= 0)) {
        throw Error(Failure::input, "the cost at " + to_string({t, i}) + " is " +
                                        number_text(value) + ", expected a number >= 0");
      }
      const double scaled = value / gamma_;
      if (std::isinf(scaled) && std::isfinite(value)) {
        throw Error(Failure::numerical,
                    "the cost at " + to_string({t, i}) + " over gamma is beyond float64");
      }
      by_source_.row(i)[t] = scaled;
    }
  }
}

Transport::Transport(const ScaledCost& cost, const double* u)
    : cost_(cost), scaled_logits_(static_cast<std::size_t>(cost.count())) {
  const Index n = cost.count();
  const double largest = *std::max_element(u, u + n);
  double total = 0;
  for (Index i = 0; i < n; ++i) {
    if (!(u[i] > 0)) continue;
    const double* from = cost.source(i);
    if (std::all_of(from, from + n, [](double value) { return std::isinf(value); })) {
      throw Error(Failure::numerical,
                  "source " + std::to_string(i) + " has a preference and can go nowhere");
    }
    sources_.push_back(i);
    preference_.push_back(u[i] / largest);
    total += preference_.back();
  }
  for (double& value : preference_) {
    value /= total;
    if (value > 0) entropy_ -= value * std::log(value);
  }
  conditional_ = OwnedMatrix<double>(static_cast<Index>(sources_.size()), n);
}

double Transport::evaluate(const double* logits, double* p) {
  const Index n = cost_.count();
  const double gamma = cost_.gamma();
  for (Index t = 0; t < n; ++t) scaled_logits_[static_cast<std::size_t>(t)] = logits[t] / gamma;
  std::fill_n(p, n, 0.0);
  double value = 0;
  for (std::size_t s = 0; s < sources_.size(); ++s) {
    double* row = conditional_.row(static_cast<Index>(s));
    const double log_sum = log_partition(scaled_logits_.data(), cost_.source(sources_[s]), n, row);
    value += preference_[s] * log_sum;
    kernel::add_scaled_row(p, row, n, preference_[s]);
  }
  return gamma * (value + entropy_);
}

void Transport::add_hessian(MatrixView<const double> templates, const double* p, const double* mean,
                            MatrixView<double> out) {
  const Index n = templates.rows;
  const Index d = templates.cols;
  const double factor = 1 / cost_.gamma();
  // Σ_i u_i Cov_i = Cov_p − Cov of the sources' means.
  if (deviations_.rows() == 0) deviations_ = OwnedMatrix<double>(n, d);
  const Index rows = weighted_deviations(templates, p, mean, deviations_.view());
  kernel::add_gram(deviations_.first(rows), factor, out);
  const MatrixView<double> means = deviations_.first(conditional_.rows());
  std::fill_n(means.data, means.rows * d, 0.0);
  kernel::multiply_add(conditional_.read(), templates, means);
  for (Index s = 0; s < means.rows; ++s) {
    const double root = std::sqrt(preference_[static_cast<std::size_t>(s)]);
    for (Index c = 0; c < d; ++c) means(s, c) = root * (means(s, c) - mean[c]);
  }
  kernel::add_gram(means, -factor, out);
}

double Transport::curvature(const double* /*p*/, double* along) {
  // Σ_i u_i Cov_i: differences between the sources' means are part of Cov_p only.
  const Index n = cost_.count();
  double sum = 0;
  for (std::size_t s = 0; s < sources_.size(); ++s) {
    const double* row = conditional_.row(static_cast<Index>(s));
    const double mean = kernel::dot(row, along, n);
    double variance = 0;
    for (Index t = 0; t < n; ++t) variance += row[t] * (along[t] - mean) * (along[t] - mean);
    sum += preference_[s] * variance;
  }
  return sum / cost_.gamma();
}

Summed Transport::primal(const double* /*p*/) {
  const Index n = cost_.count();
  const double gamma = cost_.gamma();
  Summed sum{-entropy_, entropy_};
  for (std::size_t s = 0; s < sources_.size(); ++s) {
    const double u = preference_[s];
    const double* row = conditional_.row(static_cast<Index>(s));
    const double* cost = cost_.source(sources_[s]);
    double transport = 0;
    for (Index t = 0; t < n; ++t) transport += row[t] > 0 ? row[t] * cost[t] : 0;
    // Σ_t π log π = u log u + u Σ_t p(t|s) log p(t|s).
    const double entropy = kernel::entropy_row(row, n);
    sum.value += u * (transport - entropy);
    sum.terms += u * (transport + entropy);
  }
  return {gamma * sum.value, gamma * sum.terms};
}

}  // namespace attn::fenchel
