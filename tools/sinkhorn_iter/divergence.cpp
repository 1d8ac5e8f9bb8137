#include "sinkhorn_iter/divergence.hpp"

#include <algorithm>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "attnkit/error.hpp"
#include "plan/transport_points.hpp"

namespace attn::tools {
void require_divergence(const TransportTask& task) {
  const AttentionInput& input = task.input;
  const auto refuse = [](const std::string& what) {
    throw Error(Failure::usage, what + " has no meaning for a divergence");
  };
  if (!task.of_cost) {
    throw Error(Failure::usage, "divergence requires --epsilon E with a cost or points",
                "ready-made scores have no cost");
  }
  if (input.mask) refuse("a mask");
  if (input.bias) refuse("a bias");
  if (input.rel_bias || task.scores.by_position()) refuse("--causal, --window or a relative bias");
  if (task.scores.softcap) refuse("--softcap");
}

template <class T>
FoundDivergence<T> find_divergence(const TransportTask& task, const Head<T>& head,
                                   const Marginals& marginals, const SinkhornOptions& options,
                                   const HeadOutputs& outputs, int threads,
                                   TransportResult& result) {
  const Scores<T>& between = head.scores(Scheme::sinkhorn);
  std::optional<SelfScores<T>> row, col;
  if (task.scores.source == ScoreOptions::Source::vectors) {
    row.emplace(head.q(), task.scores.epsilon);
    col.emplace(head.k(), task.scores.epsilon);
  } else if (between.rows() != between.cols()) {
    throw Error(
        Failure::input,
        fmt::format("a divergence requires the square cost of a common support, not {} x {}",
                    between.rows(), between.cols()));
  }
  const DivergenceScores<T> scores{between, row ? row->scores() : between,
                                   col ? col->scores() : between};
  FoundDivergence<T> found;
  found.divergence = solve_divergence(scores, marginals, options, threads);
  SinkhornDivergence& divergence = found.divergence;
  found.gradients = dual_gradients(task, head, divergence.between.potentials, marginals, threads);
  if (!found.gradients.marginals.row.empty()) {
    Potentials by = divergence_gradient(scores, divergence, threads);
    for (double& value : by.row) value *= task.unit();
    for (double& value : by.col) value *= task.unit();
    found.gradients.marginals = {std::move(by.row), std::move(by.col)};
  }
  subtract_self_gradient(head.q(), scores.row, divergence.row.potentials,
                         rows_like(head.q(), found.gradients.q), threads);
  subtract_self_gradient(head.k(), scores.col, divergence.col.potentials,
                         rows_like(head.k(), found.gradients.k), threads);
  found.through_solution =
      solution_gradients(task, head, scores, divergence, marginals, outputs, threads, result);
  return found;
}

std::int64_t divergence_bytes(const TransportTask& task, std::size_t element_size) {
  const AttentionInput& input = task.input;
  const auto element = static_cast<std::int64_t>(element_size);
  std::int64_t bytes =
      10 * (input.queries + input.keys) * static_cast<std::int64_t>(sizeof(double));
  if (task.scores.source != ScoreOptions::Source::vectors) return bytes;
  const Index depth = input.q->cols;
  for (const Index count : {input.queries, input.keys}) {
    bytes += product_energy_bytes(EnergyKind::gaussian, count, count, depth, element_size) +
             2 * count * depth * element;
  }
  return bytes;
}

#define ATTN_FOR_TYPE(T)                                                                \
  template FoundDivergence<T> find_divergence(const TransportTask&, const Head<T>&,     \
                                              const Marginals&, const SinkhornOptions&, \
                                              const HeadOutputs&, int, TransportResult&);
ATTN_FOR_TYPE(float)
ATTN_FOR_TYPE(double)
#undef ATTN_FOR_TYPE

}  // namespace attn::tools
