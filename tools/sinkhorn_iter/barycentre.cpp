#include "sinkhorn_iter/barycentre.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "sinkhorn/barycentre_gradient.hpp"

namespace attn::tools {
namespace {

bool needs_potentials(const TransportTask& task) {
  return task.emits("dual_grad_histogram_weights") || task.emits("grad_histogram_weights");
}

}  // namespace

void refuse_histograms(const TransportTask& task, const OwnHistograms& histograms,
                       TransportResult& result) {
  TransportProblem& figures = result.figures;
  figures.status = SolveStatus::infeasible;
  figures.feasibility.prospect = Prospect::unequal_totals;
  figures.feasibility.row_total = histograms.first_total;
  figures.feasibility.col_total = histograms.other_total;
  result.refusal = fmt::format("{}: {}", task.input.place(result.problem), histograms.refusal);
  result.hint = "normalise the histograms, so that they have the same sum";
}

TransportProblem as_transport(BarycentreResult found) {
  TransportProblem figures;
  figures.status = found.status;
  figures.iterations = found.iterations;
  figures.convergence = found.convergence;
  figures.tolerance = found.tolerance;
  figures.row_error = found.row_error;
  figures.col_error = found.col_error;
  figures.value = found.value;
  figures.primal = found.primal;
  figures.dual = found.dual;
  figures.gap = found.gap;
  figures.errors = std::move(found.errors);
  figures.through_solution = found.through_barycentre;
  return figures;
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

}  // namespace attn::tools
