#pragma once

#include <optional>
#include <string>
#include <vector>

#include "attnkit/stopping.hpp"
#include "cli/command.hpp"
#include "common/group_report.hpp"
#include "lambda_solve/dual_task.hpp"

namespace attn::tools {

/// The figures of lambda-solve for the queries of one head; empty queries are only counted.
struct DualHead {
  Index queries = 0;
  Index converged = 0;
  Index empty = 0;
  double max_gap = 0;
  double max_relative_gap = 0;  ///< gap/(1 + |primal|)
  double max_gradient_norm = 0;
  double max_certificate_error = 0;  ///< error of primal − dual − gap, in roundings
  Index max_iterations = 0;
  Index iterations = 0;                    ///< sum over all queries
  std::optional<Convergence> convergence;  ///< the slowest of those that did not converge
  std::vector<double> relative_deviation;  ///< of each query
  std::vector<double> out_deviation;       ///< of each query, if there are values

  Index problems() const { return queries - empty; }
  void add(const DualHead& more);
};

/// Fills in the report's result, by head, and prints a line for each.
void report_dual(const DualTask& task, const std::vector<DualHead>& heads, const std::string& group,
                 cli::Report& report);

/// The summary line and the exit status of all sections; `shape` is that of the scores of the only
/// one, without --each.
cli::Outcome conclude_dual(const Shape& shape, const DualHead& all, Index heads,
                           const GroupReport& groups, bool each, cli::Report& report);

}  // namespace attn::tools
