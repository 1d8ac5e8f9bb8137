#include "head/attention_sources.hpp"

#include <algorithm>

#include "head/matrix_operand.hpp"
#include "score/band.hpp"
#include "score/relative_bias.hpp"

namespace attn {

std::string Vectors::address() const {
  return input.dataset.address() + (weights ? " times " + weights->dataset.address() : "");
}

EnergySizes AttentionSources::sizes() const {
  EnergySizes sizes;
  sizes.queries = queries;
  sizes.keys = keys;
  if (!q) return sizes;
  sizes.q_depth = q->cols;
  sizes.k_depth = k->cols;
  for (std::size_t n = 0; n < energy_operands.size(); ++n) {
    const auto& operand = energy_operands[n];
    if (operand && energy().operands()[n].rows == OperandLength::hidden) {
      sizes.hidden = operand->rows;
    }
  }
  return sizes;
}

Shape AttentionSources::joined_shape(Index count) const {
  Shape shape = leading;
  if (!shape.empty()) shape.pop_back();
  return join(shape, {count, joined_width});
}

std::vector<const Operand*> AttentionSources::operands() const {
  std::vector<const Operand*> all;
  const auto add = [&](const std::optional<Operand>& operand) {
    if (operand) all.push_back(&*operand);
  };
  for (const auto* vectors : {&q, &k, &v, &grad_out}) {
    if (!*vectors) continue;
    const Vectors& made = **vectors;
    const bool again = std::any_of(all.begin(), all.end(), [&](const Operand* operand) {
      return operand->dataset.address() == made.input.dataset.address();
    });
    if (!again) all.push_back(&made.input);
    add(made.weights);
    add(made.bias);
  }
  for (const auto* operand : {&scores, &mask, &bias, &preference}) add(*operand);
  for (const auto& operand : energy_operands) add(operand);
  add(rel_bias);
  add(sink);
  add(gate);
  if (!grad_out || !grad_out->weights) add(wo);  // of grad_out
  add(bo);
  return all;
}

std::string AttentionSources::place(Index problem) const {
  std::string text;
  if (q) text = q->address() + " and " + k->address();
  if (scores) text = scores->dataset.address();
  return problem_place(text, leading, problem);
}

std::vector<double> AttentionSources::pairs_by_problem() const {
  std::vector<double> counts;
  double of_head = 0;
  for (std::size_t n = 0; n < parts.size(); ++n) {
    // The heads of a batch share their part.
    const OwnPart& part = parts[n];
    if (n == 0 || part.queries() != parts[n - 1].queries() || part.keys() != parts[n - 1].keys() ||
        part.offset != parts[n - 1].offset) {
      const Band band(part.queries(), part.keys(), {plain.causal, plain.window, part.offset});
      of_head = 0;
      for (Index row = 0; row < part.queries(); ++row) {
        of_head += static_cast<double>(band.end(row) - band.begin(row));
      }
    }
    counts.push_back(of_head);
  }
  return counts;
}

std::int64_t AttentionSources::head_bytes(std::size_t element_size, std::int64_t dense_limit,
                                          std::optional<Index> part,
                                          std::optional<Index> matrix_rows) const {
  const auto element = static_cast<std::int64_t>(element_size);
  std::int64_t bytes = 0;
  EnergySizes held = sizes();
  if (part) {
    bytes -= (queries - *part) * depth * element;
    held.queries = *part;
  }
  for (const auto* vectors : {&q, &k, &v, &grad_out}) {
    if (!*vectors) continue;
    const Vectors& made = **vectors;
    bytes += made.rows * made.cols * element;
    if (made.weights) bytes += (made.rows + made.cols) * made.inner() * element;
  }
  if (q) {
    bytes += energy().bytes(held, element_size);
    if (energies() == 2) bytes += recipe(Scheme::fenchel).energy->bytes(held, element_size);
  }
  return bytes + matrix_bytes(element_size, dense_limit, matrix_rows);
}

std::int64_t AttentionSources::matrix_bytes(std::size_t element_size, std::int64_t dense_limit,
                                            std::optional<Index> matrix_rows) const {
  std::int64_t bytes = 0;
  if (plain.relative != RelativePositions::none) {
    bytes += relative_bias_bytes(queries, keys, element_size);
  }
  const auto held = [&](const std::optional<Operand>& operand, std::size_t size,
                        std::optional<Index> rows) {
    if (operand) bytes += matrix_source_bytes(*operand, size, dense_limit, rows);
  };
  held(scores, element_size, matrix_rows);
  held(bias, element_size, matrix_rows);
  held(preference, element_size, matrix_rows);
  held(mask, 1, matrix_rows);
  held(gate, element_size, std::nullopt);
  return bytes;
}

}  // namespace attn
