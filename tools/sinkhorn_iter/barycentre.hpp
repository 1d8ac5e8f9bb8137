#pragma once

#include "common/outputs/head_outputs.hpp"
#include "head/head_reader.hpp"
#include "sinkhorn_iter/solution_gradients.hpp"
#include "sinkhorn_iter/transport_gradients.hpp"
#include "sinkhorn_iter/transport_result.hpp"
#include "sinkhorn_iter/transport_task.hpp"

namespace attn::tools {

/// The barycentre of one problem.
template <class T>
struct FoundBarycentre {
  Barycentre barycentre;       ///< in units of the scores
  DualGradients<T> gradients;  ///< of the value: by a, in the place of rows, by q and k
  SolutionGradients<T> through_solution;
};

/// Solves the problem, keeping exponentials in `memory`, shows Σ_k w_k P_k to `observers`, and
/// writes derivatives by the cost or scores to `outputs`. If the histograms have no barycentre,
/// says so in `result`, and the return value is meaningless; else sets the tolerance of `result`.
template <class T>
FoundBarycentre<T> average_histograms(const TransportTask& task, const Head<T>& head,
                                      const HeadOutputs& outputs, const MemoryPlan& memory,
                                      const ObserverList<T>& observers, SinkhornProgress* progress,
                                      int threads, TransportResult& result);

/// Bytes that the computation takes besides its result and gradients by points or through the
/// solution.
std::int64_t averaging_bytes(const TransportTask& task, std::size_t element_size, int threads);

}  // namespace attn::tools
