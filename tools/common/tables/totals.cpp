#include "common/tables/totals.hpp"

#include <algorithm>

#include "tensor/error_fall.hpp"

namespace attn::tools {

std::string status_name(SolveStatus status) {
  switch (status) {
    case SolveStatus::done:
      return "done";
    case SolveStatus::converged:
      return "converged";
    case SolveStatus::not_converged:
      return "not_converged";
    case SolveStatus::infeasible:
      return "infeasible";
  }
  return "";
}

void Totals::add(const Totals& more) {
  const SchemeSummary& summary = more.worst;
  worst.iterations = std::max(worst.iterations, summary.iterations);
  // NaN if nothing had to converge.
  if (!(worst.column_error >= summary.column_error)) worst.column_error = summary.column_error;
  worst.status = std::max(worst.status, summary.status);
  worst.convergence = slower(worst.convergence, summary.convergence);
  empty_queries += more.empty_queries;
  masked_keys += more.masked_keys;
  padding.add(more.padding);
}

}  // namespace attn::tools
