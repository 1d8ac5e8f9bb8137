#include "common/divided_gradient_needs.hpp"

#include <algorithm>

#include "gradient/gradient_blocks.hpp"
#include "pass/weight_blocks.hpp"
#include "plan/output_gate.hpp"

namespace attn::tools {

DividedGradientNeeds::DividedGradientNeeds(const AttentionInput& input, const DividedWants& wants,
                                           std::size_t element_size, Index ranks, Index rows)
    : input_(input), wants_(wants), element_size_(element_size), rows_(rows) {
  if (!wants.gradients_of_lines()) return;
  keys_ = largest_part(input, wants.scheme, ranks, [&](Index queries, Index keys) {
    return divided_partition(wants, DividedStep::gradients, queries, keys, element_size);
  });
}

std::int64_t DividedGradientNeeds::query_bytes() const {
  if (!wants_.gradients()) return 0;
  return (input_.depth + input_.v_head_dim + (1 + keys_.slots) * input_.depth) * element();
}

std::int64_t DividedGradientNeeds::forward_bytes(Index block) const {
  if (!wants_.gradients()) return 0;
  // With a gate the output is there before and after it.
  const Index rows = input_.gate ? 2 * rows_ : rows_;
  return (rows + 2 * block) * input_.v_head_dim * element();
}

std::int64_t DividedGradientNeeds::bytes(Index block, int threads) const {
  if (!wants_.gradients()) return 0;
  constexpr auto number = static_cast<std::int64_t>(sizeof(double));
  const Index parts = is_mixture() ? 2 : 1;
  // δ, and with a sink potentials as subtracted and δ in the type of the values.
  const std::int64_t query = number + (wants_.grad_sink ? number + element() : 0);
  const std::int64_t queries = parts * input_.queries * query;
  const std::int64_t delta = delta_bytes(block, threads);
  if (!wants_.gradients_of_lines()) return queries + delta + kept_bytes();
  // With a checkpoint the output is there until the end: beside that of one part of a mixture, and
  // then before and after a gate.
  const std::int64_t output = wants_.stops ? rows_ * input_.v_head_dim * element() : 0;
  return keys_.lines * input_.v_head_dim * element() + queries + kept_bytes() +
         std::max(delta + (is_mixture() ? output : 0),
                  own_bytes(block, threads) + (input_.gate ? output : 0));
}

// With a checkpoint: rows that are shown at the end.
std::int64_t DividedGradientNeeds::kept_bytes() const {
  if (!wants_.stops) return 0;
  const Index by_query = wants_.grad_q ? input_.depth : 0;
  return rows_ * (input_.v_head_dim + by_query) * element() + divided_piece_bytes;
}

// Outputs, their gradients, both once more, and blocks of keys from which they are made again.
std::int64_t DividedGradientNeeds::delta_bytes(Index block, int threads) const {
  const std::int64_t line = line_bytes(input_, element_size_);
  const std::int64_t width = input_.v_head_dim * element();
  const std::int64_t weights =
      (element_size_ == sizeof(double) ? WeightBlocks<double>::bytes : WeightBlocks<float>::bytes)(
          rows_, block, input_.v_head_dim, is_mixture(), threads);
  const std::int64_t of_gate =
      wants_.grad_gate && input_.has_gate_by_query() ? rows_ * input_.gate->cols * element() : 0;
  return rows_ * (line + 3 * width) + 2 * block * (line + width) + energy_bytes(rows_, block) +
         weights + of_gate;
}

// Keys, values and their gradients, and blocks of queries.
std::int64_t DividedGradientNeeds::own_bytes(Index block, int threads) const {
  const std::int64_t work = (element_size_ == sizeof(double) ? GradientBlocks<double>::bytes
                                                             : GradientBlocks<float>::bytes)(
      wants_.scheme, block, keys_.lines, input_.v_head_dim, threads);
  return 2 * (keys_.lines + block) * line_bytes(input_, element_size_) +
         block * input_.depth * element() + gated_bytes(block) + work +
         energy_bytes(block, keys_.lines) + sink_bytes(block) + divided_piece_bytes;
}

// The gradients of a block of the output before the gate.
std::int64_t DividedGradientNeeds::gated_bytes(Index block) const {
  return input_.gate ? gate_bytes(block, input_.v_head_dim, element_size_) : 0;
}

EnergySizes DividedGradientNeeds::sizes(Index queries, Index keys) const {
  EnergySizes sizes = input_.sizes();
  sizes.queries = queries;
  sizes.keys = keys;
  return sizes;
}

std::int64_t DividedGradientNeeds::energy_bytes(Index queries, Index keys) const {
  if (!input_.q) return 0;
  return input_.recipe(wants_.scheme).energy->bytes(sizes(queries, keys), element_size_);
}

std::int64_t DividedGradientNeeds::sink_bytes(Index block) const {
  if (!wants_.gradients_of_scores()) return 0;
  return input_.recipe(wants_.scheme)
      .energy->gradient_bytes(sizes(block, keys_.lines), element_size_, keys_.slots);
}

}  // namespace attn::tools
