#pragma once

#include <vector>

#include "sinkhorn/divergence_gradient.hpp"
#include "sinkhorn_iter/solution_gradients.hpp"
#include "sinkhorn_iter/transport_gradients.hpp"
#include "sinkhorn_iter/transport_task.hpp"

namespace attn::tools {

/// The divergence of one problem, in units of the cost, and its derivatives.
template <class T>
struct FoundDivergence {
  SinkhornDivergence divergence;  ///< in units of the scores
  DualGradients<T> gradients;     ///< of the divergence
  SolutionGradients<T> through_solution;
};

/// Throws Error(usage) for terms of the scores, such as a mask, that the problem of a side with
/// itself cannot have.
void require_divergence(const TransportTask& task);

/// Requires Σ a = Σ b. Writes derivatives by the cost to `outputs`, and says in `result` how well
/// the equations of derivatives were solved. A cost belongs to a common support: throws
/// Error(input) if it is not square.
template <class T>
FoundDivergence<T> find_divergence(const TransportTask& task, const Head<T>& head,
                                   const Marginals& marginals, const SinkhornOptions& options,
                                   const HeadOutputs& outputs, int threads,
                                   TransportResult& result);

/// Bytes that a divergence takes in addition to transport between the larger side and itself.
std::int64_t divergence_bytes(const TransportTask& task, std::size_t element_size);

}  // namespace attn::tools
