#include "sinkhorn_iter/point_gradients.hpp"

#include "attnkit/error.hpp"
#include "gradient/plan_gradient.hpp"

namespace attn::tools {

void require_points(const TransportTask& task, const PointNames& names, const std::string& hint) {
  if (!names.wanted(task) || task.scores.source == ScoreOptions::Source::vectors) return;
  throw Error(
      Failure::usage,
      std::string("--emit ") + (task.emits(names.q) ? names.q : names.k) + " requires q and k",
      hint);
}

std::int64_t point_result_bytes(const TransportTask& task, const PointNames& names,
                                std::size_t element_size) {
  const AttentionInput& input = task.input;
  const auto element = static_cast<std::int64_t>(element_size);
  std::int64_t bytes = 0;
  if (task.emits(names.q)) bytes += input.queries * input.q->cols * element;
  if (task.emits(names.k)) bytes += input.keys * input.k->cols * element;
  return bytes;
}

std::int64_t point_work_bytes(const TransportTask& task, const PointNames& names, Index plans,
                              std::size_t element_size, int threads) {
  if (!names.wanted(task)) return 0;
  const AttentionInput& input = task.input;
  return differentiate_plans_bytes(input.queries, input.keys, plans, element_size, threads) +
         input.energy().gradient_bytes(input.sizes(), element_size,
                                       gradient_lanes(input.keys, threads));
}

}  // namespace attn::tools
