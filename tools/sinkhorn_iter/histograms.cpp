#include "sinkhorn_iter/histograms.hpp"

#include <cmath>
#include <numeric>

#include <fmt/format.h>

#include "attnkit/error.hpp"
#include "sinkhorn_iter/masses.hpp"

namespace attn::tools {
namespace {

Operand histogram_operand(const io::InputBundle& bundle, const Shape& leading, Index keys) {
  const ArraySource dataset = bundle.dataset("a");
  const std::string expected = fmt::format("(..., K, {}), K histograms", keys);
  require_vectors(dataset, expected.c_str(), NumberTypes::any);
  if (dataset.shape().back() != keys) {
    throw Error(Failure::input, fmt::format("{} has shape {}, expected {}", dataset.address(),
                                            to_string(dataset.shape()), expected));
  }
  return vectors_operand(dataset, leading, false, HeadLayout::heads_first);
}

}  // namespace

HistogramInput::HistogramInput(const io::InputBundle& bundle, const Shape& leading, Index keys)
    : masses(histogram_operand(bundle, leading, keys)), count(masses.rows) {
  if (!bundle.has(histogram_weights)) return;
  weights =
      vector_operand(bundle.dataset(histogram_weights), leading, false, count, NumberTypes::any);
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

  const HistogramTotals totals = equalise(found.masses, count, rounding_of(masses));
  found.first_total = totals.first;
  found.other_total = totals.other;
  if (!totals.equal) {
    found.refusal =
        fmt::format("no barycentre: histogram 0 of {} adds up to {}, histogram {} to {}",
                    masses.dataset.address(), totals.first, totals.farthest, totals.other);
  }
  return found;
}

}  // namespace attn::tools
