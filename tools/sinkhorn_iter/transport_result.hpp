#pragma once

#include <string>
#include <vector>

#include "attnkit/transport.hpp"
#include "common/runs/checkpoint_record.hpp"
#include "sinkhorn/exact_transport.hpp"

namespace attn::tools {

/// The result of one problem.
struct TransportResult {
  Index problem = 0;
  TransportProblem figures;  ///< of a barycentre in the form of transport
  ExactSummary exact;        ///< of exact transport
  std::string refusal;       ///< why the problem cannot be solved, for people; else empty
  std::string hint;

  bool infeasible() const { return figures.status == SolveStatus::infeasible; }

  /// Whether gradients through the solution are requested.
  bool has_gradient() const { return figures.through_solution.status != SolveStatus::done; }

  /// "done", "converged", "not_converged" or "infeasible". Gradients that do not hold count as not
  /// converged.
  std::string status_name() const;

  /// Greater for worse results: infeasible ones, then those that did not converge, then large
  /// errors.
  std::vector<double> badness() const;
};

/// For a checkpoint (common/runs/checkpoint_record.hpp).
template <class Archive>
void archive(Archive& with, TransportProblem& figures) {
  archive(with, figures.status);
  archive(with, figures.iterations);
  archive(with, figures.convergence);
  archive(with, figures.tolerance);
  for (double* const number :
       {&figures.row_error, &figures.col_error, &figures.mass, &figures.value, &figures.primal,
        &figures.dual, &figures.gap, &figures.rescaled}) {
    archive(with, *number);
  }
  archive(with, figures.exact_method);
  archive(with, figures.limited_by_rounding);
  archive(with, figures.divergence);
  Feasibility& found = figures.feasibility;
  archive(with, found.prospect);
  archive(with, found.row_total);
  archive(with, found.col_total);
  for (Shortage* const side : {&found.rows, &found.cols}) {
    archive(with, side->lines);
    archive(with, side->demand);
    archive(with, side->partners);
    archive(with, side->capacity);
  }
  archive(with, found.vanishing_count);
  archive(with, found.vanishing);
  archive(with, figures.errors);
  archive(with, figures.through_solution);
}

template <class Archive>
void archive(Archive& with, TransportResult& result) {
  archive(with, result.problem);
  archive(with, result.figures);
  archive(with, result.exact);
  archive(with, result.refusal);
  archive(with, result.hint);
}

/// The results of several problems. The worst problem is one that cannot be solved, else one that
/// has not converged, else the problem with the largest error.
struct TransportResults {
  std::vector<TransportResult> problems;
  const TransportResult& worst() const;
};

}  // namespace attn::tools
