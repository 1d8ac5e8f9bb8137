#include "sinkhorn_iter/barycentre.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace attn::tools {
namespace {

bool needs_potentials(const TransportTask& task) {
  return task.emits("dual_grad_histogram_weights") || task.emits("grad_histogram_weights");
}

}  // namespace

template <class T>
FoundBarycentre<T> average_histograms(const TransportTask& task, const Head<T>& head,
                                      const HeadOutputs& outputs, const MemoryPlan& memory,
                                      const ObserverList<T>& observers, SinkhornProgress* progress,
                                      int threads, TransportResult& result) {
  const Scores<T>& scores = head.scores(Scheme::sinkhorn);
  const TileRange& own = head.part.range;
  const OwnHistograms histograms = task.histograms->read(head.problem, own.col0, own.cols);
  FoundBarycentre<T> found;
  if (!histograms.refusal.empty()) {
    result.refusal = fmt::format("{}: {}", task.input.place(head.problem), histograms.refusal);
    result.hint = "normalise the histograms, so that they have the same sum";
    result.feasibility.prospect = Prospect::unequal_totals;
    result.feasibility.row_total = histograms.first_total;
    result.feasibility.col_total = histograms.other_total;
    return found;
  }
  const BarycentreOptions options{
      task.solver.stopping, task.solver.keeps_errors, {memory.useful_bytes}};
  result.tolerance = tolerance_in_force(options.stopping, histograms.first_total, sizeof(T));
  const Histograms view = histograms.view();
  found.barycentre = find_barycentre(scores, view, options, threads, progress);
  if (!observers.empty()) show_mean_plan(scores, found.barycentre, view, observers, threads);
  HistogramPotentials potentials;
  if (needs_potentials(task)) {
    potentials = histogram_potentials(scores, found.barycentre, view, options, threads);
    if (potentials.status == SolveStatus::not_converged) {
      found.barycentre.summary.status = SolveStatus::not_converged;
    }
  }
  found.gradients =
      barycentre_gradients(task, head, found.barycentre, histograms, potentials, threads);
  found.through_solution = solution_gradients(task, head, found.barycentre, histograms, potentials,
                                              outputs, memory.dense_limit, threads, result);
  return found;
}

std::int64_t averaging_bytes(const TransportTask& task, std::size_t element_size, int threads) {
  const AttentionInput& input = task.input;
  const auto histograms = static_cast<std::size_t>(task.lines());
  std::int64_t found =
      barycentre_bytes(input.queries, input.keys, task.lines(), element_size, threads);
  if (needs_potentials(task)) {
    found = std::max(found, barycentre_gradient_bytes(input.queries, input.keys, task.lines(),
                                                      element_size, threads));
  }
  if (!task.emits("plan")) return found;
  return std::max(found, pass_bytes(Order::row_panels, input.queries, input.keys, histograms,
                                    element_size, threads));
}

#define ATTN_FOR_TYPE(T)                                                           \
  template FoundBarycentre<T> average_histograms(                                  \
      const TransportTask&, const Head<T>&, const HeadOutputs&, const MemoryPlan&, \
      const ObserverList<T>&, SinkhornProgress*, int, TransportResult&);
ATTN_FOR_TYPE(float)
ATTN_FOR_TYPE(double)
#undef ATTN_FOR_TYPE

}  // namespace attn::tools
