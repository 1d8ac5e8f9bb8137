#include "sinkhorn_iter/histograms.hpp"

#include <cmath>
#include <numeric>

#include <fmt/format.h>

#include "attnkit/error.hpp"
#include "feasibility/feasibility.hpp"
#include "sinkhorn_iter/masses.hpp"

namespace attn::tools {
namespace {

Operand histogram_operand(const io::InputBundle& bundle, const Shape& leading, Index keys) {
  const io::InputDataset dataset = bundle.dataset("a");
  const std::string expected = fmt::format("(..., K, {}), K histograms", keys);
  require_vectors(dataset, expected.c_str());
  if (dataset.shape().back() != keys) {
    throw Error(Failure::input, fmt::format("{} has shape {}, expected {}", dataset.address(),
                                            to_string(dataset.shape()), expected));
  }
  return vectors_operand(dataset, leading, false, ScoreOptions::Layout::heads_first);
}

}  // namespace

HistogramInput::HistogramInput(const io::InputBundle& bundle, const Shape& leading, Index keys)
    : masses(histogram_operand(bundle, leading, keys)), count(masses.rows) {
  if (!bundle.has(histogram_weights)) return;
  weights = vector_operand(bundle.dataset(histogram_weights), leading, false, count);
}

OwnHistograms HistogramInput::read(Index problem, Index first, Index own) const {
  OwnHistograms found;
  found.count = count;
  found.masses = read_masses(masses, problem, {0, count, first, own});
  found.weights.assign(static_cast<std::size_t>(count), 1.0);
  if (weights) found.weights = read_masses(*weights, problem, {0, 1, 0, count});
  const double sum = std::accumulate(found.weights.begin(), found.weights.end(), 0.0);
  if (!(sum > 0) || std::isinf(sum)) {
    throw Error(Failure::input, fmt::format("{} adds up to {}, expected a finite number > 0",
                                            weights->dataset.address(), sum));
  }
  for (double& weight : found.weights) weight /= sum;
  found.weight_sum = sum;

  Index farthest = 0;
  std::vector<double> totals;
  for (Index k = 0; k < count; ++k) {
    const auto begin = found.masses.begin() + k * own;
    totals.push_back(std::accumulate(begin, begin + own, 0.0));
    const auto apart = [&](Index n) {
      return std::abs(totals[static_cast<std::size_t>(n)] - totals.front());
    };
    if (apart(k) > apart(farthest)) farthest = k;
  }
  found.first_total = totals.front();
  found.other_total = totals[static_cast<std::size_t>(farthest)];
  if (!totals_count_as_equal(found.first_total, found.other_total,
                             static_cast<std::size_t>(2 * own), rounding_of(masses))) {
    found.refusal =
        fmt::format("no barycentre: histogram 0 of {} adds up to {}, histogram {} to {}",
                    masses.dataset.address(), found.first_total, farthest, found.other_total);
    return found;
  }
  for (Index k = 0; k < count; ++k) {
    const double total = totals[static_cast<std::size_t>(k)];
    if (total == 0) continue;
    for (Index j = 0; j < own; ++j) {
      found.masses[static_cast<std::size_t>(k * own + j)] *= found.first_total / total;
    }
  }
  return found;
}

}  // namespace attn::tools
