#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/command.hpp"
#include "cli/progress.hpp"
#include "common/group_report.hpp"
#include "feasibility/feasibility.hpp"
#include "io/output.hpp"
#include "sinkhorn_iter/transport_task.hpp"

namespace attn::tools {

/// How one problem ended.
struct TransportResult {
  Index problem = 0;
  SinkhornSummary summary;
  std::optional<double> tolerance;  ///< in force
  Feasibility feasibility;          ///< of what was looked at, where a tolerance is in force
  double rescaled = 0;              ///< |Σa − Σb| that the tolerance has room for: b was scaled
  std::string refusal;              ///< why it cannot be solved, for people; empty where it was
  std::string hint;

  bool infeasible() const { return !refusal.empty(); }
};

/// Of several problems. The worst: one that cannot be solved, one that has not converged, the one
/// of the largest error.
struct TransportResults {
  std::vector<TransportResult> problems;
  const TransportResult& worst() const;
};

/// Solves the problems of one section and writes what is asked for. Where some cannot be solved the
/// rest of the results is void, and nothing may be committed.
TransportResults solve_section(const cli::Arguments& arguments, const TransportTask& task,
                               io::OutputBundle output, cli::Progress& progress,
                               cli::Report& report);

/// Fills the report's result. Throws Error(numerical), naming the problem, where the worst cannot
/// be solved; else the summary line and the exit status.
cli::Outcome conclude_transport(const TransportTask& task, const TransportResults& results,
                                cli::Report& report);

}  // namespace attn::tools
