#include "sinkhorn_iter/transport_result.hpp"

#include <algorithm>

#include "common/tables/totals.hpp"

namespace attn::tools {

std::string TransportResult::status_name() const {
  if (!infeasible() && figures.through_solution.status == SolveStatus::not_converged) {
    return "not_converged";
  }
  return tools::status_name(figures.status);
}

std::vector<double> TransportResult::badness() const {
  if (infeasible()) return {2.0, 0.0};
  return {status_name() == "not_converged" ? 1.0 : 0.0, figures.row_error + figures.col_error};
}

const TransportResult& TransportResults::worst() const {
  return *std::max_element(
      problems.begin(), problems.end(),
      [](const TransportResult& x, const TransportResult& y) { return x.badness() < y.badness(); });
}

}  // namespace attn::tools
