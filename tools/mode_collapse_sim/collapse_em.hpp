#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "cli/command.hpp"
#include "cli/report.hpp"
#include "collapse/expectation_maximisation.hpp"
#include "mode_collapse_sim/point_plan.hpp"
#include "mode_collapse_sim/point_sets.hpp"

namespace attn::tools {

/// A log-likelihood may come out lower by this part of the larger of 1 and its size: rounding.
constexpr double most_fall = 1e-10;

/// What mode-collapse-sim em was asked for.
struct EmTask {
  /// Throws Error(usage) for options that do not fit together, Error(input) for a dataset `start`
  /// that does not fit the points.
  EmTask(const cli::Arguments& arguments, const io::InputBundle* input);

  PointSets sets;
  Index steps;
  double variance;  ///< to begin with
  collapse::EmOptions options;
  std::vector<std::vector<double>> start;  ///< --start
  std::optional<io::InputDataset> stored;  ///< dataset start; neither: the points themselves
  Index components = 0;
  std::set<std::string> emitted;

  bool emits(const std::string& name) const { return emitted.count(name) > 0; }
  std::string priors() const;

  /// The mixture that a set's iteration begins with.
  collapse::GaussianMixture first(Index set, MatrixView<const double> points) const;

  /// Fits the work into --memory.
  PointPlan plan(const cli::Arguments& arguments) const;
};

/// What is kept of the runs for the report.
struct EmRuns {
  std::vector<double> log_likelihood;  ///< (sets, T + 1)
  std::vector<double> variance;        ///< (sets, T + 1)
  Index floored = 0;                   ///< sets whose variance reached its floor
  Index empty = 0;                     ///< the most components without a share in any step
  double dnas_error = 0;  ///< of the first step against dnas, in units of what it may be
};

/// Declares what em has besides the points.
void declare_em(cli::Declaration& d);

/// Steps of EM for a Gaussian mixture.
cli::Outcome run_em(const cli::Arguments& arguments, cli::Report& report);

/// Shapes, bytes and flops, for --dry-run.
void report_em_cost(const cli::Arguments& arguments, const EmTask& task, cli::Report& report);

/// Fills in the report.
cli::Outcome report_em(const EmTask& task, const EmRuns& runs, cli::Report& report);

}  // namespace attn::tools
