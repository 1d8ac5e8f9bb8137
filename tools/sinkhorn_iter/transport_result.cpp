#include "sinkhorn_iter/transport_result.hpp"

#include <algorithm>

#include "common/tables/totals.hpp"

namespace attn::tools {

std::string TransportResult::status_name() const {
  if (infeasible()) return "infeasible";
  if (gradient && !gradient->holds()) return "not_converged";
  return tools::status_name(summary.status);
}

std::vector<double> TransportResult::badness() const {
  const bool stopped = status_name() == "not_converged";
  return {infeasible() ? 2.0 : (stopped ? 1.0 : 0.0), summary.row_error + summary.col_error};
}

const TransportResult& TransportResults::worst() const {
  return *std::max_element(
      problems.begin(), problems.end(),
      [](const TransportResult& x, const TransportResult& y) { return x.badness() < y.badness(); });
}

}  // namespace attn::tools
