#include "hard_attention/sampled_gradients.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "attnkit/error.hpp"
#include "common/tables/table.hpp"
#include "mechanisms/hard.hpp"

namespace attn::tools {
namespace {

using mechanisms::Hard;
using mechanisms::HardDraw;
using mechanisms::HardMoments;
using mechanisms::HardSampling;
using mechanisms::HardStep;
using mechanisms::Tensors;

double sum_of(const std::vector<double>& numbers) {
  double sum = 0;
  for (const double one : numbers) sum += one;
  return sum;
}

// No device, each active device alone, and all together if there are several.
std::vector<EstimateRow> rows_for(const SamplingOptions& options) {
  HardSampling none = options.sampling;
  none.entropy = 0;
  none.soft_share = 0;
  std::vector<EstimateRow> rows = {{"none", none, false}};
  if (options.has_baseline()) rows.emplace_back("baseline", none, true);
  if (options.sampling.entropy != 0) {
    HardSampling one = none;
    one.entropy = options.sampling.entropy;
    rows.emplace_back("entropy", one, false);
  }
  if (options.sampling.soft_share != 0) {
    HardSampling one = none;
    one.soft_share = options.sampling.soft_share;
    rows.emplace_back("soft", one, false);
  }
  if (rows.size() > 2) rows.emplace_back("all", options.sampling, options.has_baseline());
  return rows;
}

// The part of one sequence in the gradients with respect to the results of a piece.
template <class T>
Tensors<T> part_of(const Tensors<T>& grad_results, Index sequence) {
  Tensors<T> part;
  for (const auto& whole : grad_results) {
    const Index own = whole.shape.empty() ? 1 : whole.shape[0];
    part.emplace_back(whole.data + sequence * own, whole.shape);
  }
  return part;
}

}  // namespace

EstimateRow::EstimateRow(std::string devices, const HardSampling& sampling, bool has_baseline)
    : devices_(std::move(devices)), sampling_(sampling), has_baseline_(has_baseline) {}

void EstimateRow::add(const HardStep& step, const HardDraw& draw, double baseline) {
  const double own = has_baseline_ ? baseline : 0;
  const HardMoments exact = exact_moments(step, sampling_, own);
  const HardMoments sampled = sampled_moments(step, draw, sampling_, own);
  const std::vector<double> gradient = energy_gradient(step);
  double square = 0;
  for (std::size_t k = 0; k < gradient.size(); ++k) {
    square += (exact.mean[k] - gradient[k]) * (exact.mean[k] - gradient[k]);
  }
  const double variance = sum_of(exact.variance);
  if (!std::isfinite(variance) || !std::isfinite(square)) {
    throw Error(Failure::numerical, "the variance of the samples is beyond the range of float64");
  }
  sequences_ += 1;
  variance_ += sum_of(sampled.variance);
  exact_variance_ += variance;
  exact_bias_ += std::sqrt(square);
  baseline_ += own;
  const double best = best_baseline(step);
  if (!std::isnan(best)) {
    best_ += best;
    with_best_ += 1;
  }
  add_bias(step, exact, sampled, own);
}

void EstimateRow::add_bias(const HardStep& step, const HardMoments& exact,
                           const HardMoments& sampled, double baseline) {
  const std::vector<double> gradient = energy_gradient(step);
  double largest = std::abs(baseline);
  for (const double one : step.log_p) largest = std::max(largest, std::abs(one));
  for (std::size_t k = 0; k < gradient.size(); ++k) {
    const double bias = std::abs(sampled.mean[k] - gradient[k]);
    const double magnitude =
        std::abs(sampled.mean[k]) + std::abs(gradient[k]) + step.weights[k] * largest;
    // Uses an exact variance: the variance of samples is far too small for rarely drawn
    // annotations.
    const double error = std::sqrt(exact.variance[k] / static_cast<double>(sampling_.samples));
    if (bias > 1e-14 * magnitude) bias_ = std::max(bias_, bias / error);
  }
}

template <class T>
SampledGradients<T>::SampledGradients(const SamplingOptions& options)
    : options_(options), rows_(rows_for(options)) {}

template <class T>
std::int64_t SampledGradients<T>::sequence_bytes(const mechanisms::Sizes& sizes) const {
  // A step and its draw.
  return sizes.at("L") * static_cast<std::int64_t>(3 * sizeof(double) + 2 * sizeof(Index)) +
         static_cast<std::int64_t>(sizeof(HardStep) + sizeof(HardDraw));
}

template <class T>
std::int64_t SampledGradients<T>::working_bytes(const mechanisms::Sizes& sizes, Index count,
                                                int threads) const {
  // Bytes of the steps, several of which are made at once, and of the moments.
  const std::int64_t of_step =
      Hard::make<T>()->working_bytes(sizes, false) +
      (4 * sizes.at("L") + 2 * sizes.at("D")) * static_cast<std::int64_t>(sizeof(double));
  return std::min<Index>(threads, count) * of_step +
         12 * sizes.at("L") * static_cast<std::int64_t>(sizeof(double));
}

template <class T>
double SampledGradients<T>::baseline_of(const HardStep& step) const {
  switch (options_.baseline) {
    case SamplingOptions::Baseline::number:
      return options_.number;
    case SamplingOptions::Baseline::mean:
      return mean_log_p(step);
    case SamplingOptions::Baseline::best: {
      const double best = best_baseline(step);
      return std::isnan(best) ? 0 : best;
    }
    case SamplingOptions::Baseline::running:
      break;
  }
  return running_;
}

template <class T>
void SampledGradients<T>::change(const mechanisms::Batch<T>& piece, Index first,
                                 const Tensors<T>& grad_results, int threads) {
  std::vector<HardStep> steps(static_cast<std::size_t>(piece.count));
  std::vector<HardDraw> draws(steps.size());
  for_sequences<T>(Hard::form(), piece, threads,
                   [&](Index n, const mechanisms::Sequence<T>& sequence) {
                     const auto place = static_cast<std::size_t>(n);
                     steps[place] = mechanisms::hard_step(sequence);
                     draws[place] = draw(steps[place], options_.sampling, first + n);
                   });
  for (std::size_t n = 0; n < steps.size(); ++n) {
    const double baseline = baseline_of(steps[n]);
    for (EstimateRow& row : rows_) row.add(steps[n], draws[n], baseline);
    if (!steps[n].weights.empty()) {
      running_ = 0.9 * running_ + 0.1 * drawn_log_p(steps[n], draws[n]);
    }
    if (grad_results.empty()) continue;
    const Tensors<T> own = part_of(grad_results, static_cast<Index>(n));
    T& of_log_p = *own[Hard::log_p].data;
    add_estimate(steps[n], draws[n], options_.sampling, baseline, static_cast<double>(of_log_p),
                 own);
    of_log_p = 0;  // its place is taken
  }
}

template <class T>
std::string SampledGradients<T>::report(nlohmann::ordered_json& result) const {
  Table table({{"devices"},
               {"variance"},
               {"exact_variance", options_.enumerate},
               {"bias"},
               {"exact_bias", options_.enumerate},
               {"b"},
               {"best_b"}});
  auto& all = result["estimates"] = nlohmann::ordered_json::array();
  for (const EstimateRow& row : rows_) {
    table.add({row.devices(), row.variance(), row.exact_variance(), row.bias(), row.exact_bias(),
               row.baseline(), row.best()});
    nlohmann::ordered_json one = {{"devices", row.devices()}, {"variance", row.variance()}};
    if (options_.enumerate) one["exact_variance"] = row.exact_variance();
    one["bias"] = row.bias();
    if (options_.enumerate) one["exact_bias"] = row.exact_bias();
    one["b"] = row.baseline();
    one["best_b"] = row.best();
    all.push_back(std::move(one));
  }
  return fmt::format("gradients of energies from one sample; bias in standard errors of {}\n{}",
                     options_.sampling.samples, table.text());
}

template class SampledGradients<float>;
template class SampledGradients<double>;

}  // namespace attn::tools
