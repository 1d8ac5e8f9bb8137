#include "sinkhorn_iter/barycentre.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace attn::tools {

template <class T>
FoundBarycentre<T> average_histograms(const TransportTask& task, const Head<T>& head,
                                      std::int64_t kept_bytes, const ObserverList<T>& observers,
                                      SinkhornProgress* progress, int threads,
                                      TransportResult& result) {
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
  const BarycentreOptions options{static_cast<const Stopping&>(task.solver),
                                  task.solver.keeps_errors, kept_bytes};
  result.tolerance = tolerance_in_force(options, histograms.first_total, sizeof(T));
  const Histograms& view = histograms.view();
  found.barycentre = find_barycentre(scores, view, options, threads, progress);
  if (!observers.empty()) show_mean_plan(scores, found.barycentre, view, observers, threads);
  found.gradients = barycentre_gradients(task, head, found.barycentre, view, threads);
  return found;
}

std::int64_t averaging_bytes(const TransportTask& task, std::size_t element_size, int threads) {
  const AttentionInput& input = task.input;
  const auto histograms = static_cast<std::size_t>(task.lines());
  const std::int64_t found =
      barycentre_bytes(input.queries, input.keys, task.lines(), element_size, threads);
  if (!task.emits("plan")) return found;
  return std::max(found, pass_bytes(Order::row_panels, input.queries, input.keys, histograms,
                                    element_size, threads));
}

#define ATTN_FOR_TYPE(T)                                                               \
  template FoundBarycentre<T> average_histograms(const TransportTask&, const Head<T>&, \
                                                 std::int64_t, const ObserverList<T>&, \
                                                 SinkhornProgress*, int, TransportResult&);
ATTN_FOR_TYPE(float)
ATTN_FOR_TYPE(double)
#undef ATTN_FOR_TYPE

}  // namespace attn::tools
