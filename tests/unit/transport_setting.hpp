#pragma once

#include <random>
#include <utility>

#include "attnkit/transport.hpp"
#include "plan_array.hpp"
#include "same_bits.hpp"

namespace attn::testing {

enum class CostSource { cost, scores, points };

/// The shapes and options of transport problems. Empty shapes are absent inputs.
struct TransportSetting {
  CostSource source = CostSource::cost;
  Shape first;   ///< of the cost, the scores, or x
  Shape second;  ///< of y
  Shape row_marginal;
  Shape col_marginal;
  Shape mask;
  TransportOptions options = {};
};

/// Inputs of that setting, drawn at random: marginals of total 1, and a mask of two thirds.
template <class T>
struct TransportArrays {
  TransportSetting setting;
  Array<T> first, second;
  Array<double> row_marginal, col_marginal;
  Array<std::uint8_t> mask;

  TransportArrays(const TransportSetting& given, Random& random)
      : setting(given),
        first(normal_array<T>(given.first, random)),
        row_marginal(given.row_marginal, 1.0),
        col_marginal(given.col_marginal, 1.0),
        mask(given.mask, 1) {
    if (given.source == CostSource::points) second = normal_array<T>(given.second, random);
    for (Array<double>* marginal : {&row_marginal, &col_marginal}) normalise(*marginal, random);
    for (std::size_t n = 1; n < mask.values.size(); n += 3) mask.values[n] = 0;
  }

  static void normalise(Array<double>& marginal, Random& random) {
    if (marginal.shape.empty()) return;
    const auto size = static_cast<std::size_t>(marginal.shape.back());
    std::uniform_real_distribution<double> uniform(0.5, 1.5);
    for (std::size_t block = 0; block < marginal.values.size(); block += size) {
      double total = 0;
      for (std::size_t n = 0; n < size; ++n) total += marginal.values[block + n] = uniform(random);
      for (std::size_t n = 0; n < size; ++n) marginal.values[block + n] /= total;
    }
  }

  TransportInputs<T> inputs() const {
    TransportInputs<T> in;
    if (setting.source == CostSource::cost) in.cost = first.view();
    if (setting.source == CostSource::scores) in.scores = first.view();
    if (setting.source == CostSource::points) {
      in.x = first.view();
      in.y = second.view();
    }
    if (!setting.mask.empty()) in.mask = mask.view();
    if (!setting.row_marginal.empty()) in.row_marginal = row_marginal.view();
    if (!setting.col_marginal.empty()) in.col_marginal = col_marginal.view();
    return in;
  }
};

/// All outputs of a plan.
template <class T>
struct FoundTransport {
  Array<double> row, col, row_sum, col_sum;
  Array<T> plan;
  TransportSummary summary;

  explicit FoundTransport(const TransportPlan<T>& made)
      : row(made.row_shape(), 7),
        col(made.col_shape(), 7),
        row_sum(made.row_shape(), 7),
        col_sum(made.col_shape(), 7),
        plan(made.plan_shape(), 7) {}

  TransportOutputs<T> outputs() {
    return {row.view(), col.view(), plan.view(), row_sum.view(), col_sum.view()};
  }
  bool operator==(const FoundTransport& other) const {
    return same_bits(row.values, other.row.values) && same_bits(col.values, other.col.values) &&
           same_bits(row_sum.values, other.row_sum.values) &&
           same_bits(col_sum.values, other.col_sum.values) &&
           same_bits(plan.values, other.plan.values);
  }
};

template <class T>
FoundTransport<T> run_plan(const TransportArrays<T>& arrays, int threads) {
  TransportPlan<T> plan(shapes_of(arrays.inputs()), arrays.setting.options, threads);
  FoundTransport<T> found(plan);
  found.summary = plan.run(arrays.inputs(), found.outputs());
  return found;
}

}  // namespace attn::testing
