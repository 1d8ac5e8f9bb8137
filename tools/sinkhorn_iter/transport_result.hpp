#pragma once

#include <optional>
#include <string>
#include <vector>

#include "attnkit/transport.hpp"
#include "common/runs/checkpoint_record.hpp"
#include "feasibility/feasibility.hpp"

namespace attn::tools {

/// A divergence in units of the cost.
struct DivergenceFigures {
  double value = 0;
  double sharp = 0;
  double lower = 0;
  double upper = 0;
};

/// How well the equations of a problem's gradients were solved (sinkhorn/implicit_gradient.hpp).
struct GradientFigures {
  Index iterations = 0;
  double residual = 0;
  bool unsolved = false;
  double plan_error = 0;  ///< the solution_error of the plan; 0 for a solution

  bool holds() const { return !unsolved && plan_error == 0; }
};

/// The result of one problem. For a divergence, it describes the transport between both sides, with
/// the worst status and the most iterations of the three problems.
struct TransportResult {
  Index problem = 0;
  SinkhornSummary summary;
  double epsilon = 0;                ///< exact transport: the last one
  double gap_floor = 0;              ///< exact transport: ExactSummary::rounding
  bool limited_by_rounding = false;  ///< exact transport: see ExactSummary
  std::optional<DivergenceFigures> divergence;
  std::optional<GradientFigures> gradient;
  std::optional<double> tolerance;  ///< none with an exact number of iterations
  Feasibility feasibility;          ///< set if a tolerance is used
  double rescaled = 0;              ///< |Σa − Σb| accepted by the tolerance: b was scaled
  std::string refusal;              ///< why the problem cannot be solved, for people; else empty
  std::string hint;

  bool infeasible() const { return !refusal.empty(); }

  /// "done", "converged", "not_converged" or "infeasible". Gradients that do not hold count as not
  /// converged.
  std::string status_name() const;

  /// Greater for worse results: infeasible ones, then those that did not converge, then large
  /// errors.
  std::vector<double> badness() const;
};

/// For a checkpoint (common/runs/checkpoint_record.hpp).
template <class Archive>
void archive(Archive& with, TransportResult& result) {
  archive(with, result.problem);
  archive(with, result.summary);
  archive(with, result.epsilon);
  archive(with, result.gap_floor);
  archive(with, result.limited_by_rounding);
  archive(with, result.divergence);
  archive(with, result.gradient);
  archive(with, result.tolerance);
  Feasibility& found = result.feasibility;
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
  archive(with, result.rescaled);
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
