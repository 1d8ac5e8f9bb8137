#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "attnkit/collapse.hpp"
#include "cli/command.hpp"
#include "cli/report.hpp"
#include "mode_collapse_sim/point_plan.hpp"
#include "mode_collapse_sim/point_sets.hpp"

namespace attn::tools {

/// A mixture of M components in d dimensions.
struct EmMixture {
  std::vector<double> centre;     ///< (M, d)
  std::vector<double> log_prior;  ///< (M)
  std::vector<double> variance;   ///< one for all components, or one for each

  collapse::MixtureViews<double> views();
};

/// The options of mode-collapse-sim em.
struct EmTask {
  /// Throws Error(usage) for contradictory options, Error(input) for a dataset `start` that does
  /// not match the points.
  EmTask(const cli::Arguments& arguments, const io::InputBundle* input);

  PointSets sets;
  Index steps;
  std::vector<double> variance;  ///< initial; of all components, or of each
  collapse::EmOptions options;
  std::vector<std::vector<double>> start;  ///< --start
  std::optional<ArraySource> stored;       ///< dataset start; if neither, the points themselves
  Index components = 0;
  std::set<std::string> emitted;

  bool emits(const std::string& name) const { return emitted.count(name) > 0; }
  std::string priors() const;
  /// Whether each component has its own variance.
  bool own_variances() const { return variance.size() > 1; }

  /// The mixture with which the iteration of a set begins, with equal priors. `points` (N, d) are
  /// the points of the set.
  EmMixture first(Index set, const double* points) const;

  /// The plan of the steps of one set.
  collapse::MixturePlan steps_plan(int threads) const;

  /// Fits the work into --memory.
  PointPlan plan(const cli::Arguments& arguments) const;

 private:
  void find_start(const io::InputBundle* input);
  void set_variances(const std::string& estimated);
};

/// Declares the options of em except the options of the points.
void declare_em(cli::Declaration& d);

/// Runs steps of EM for a Gaussian mixture.
cli::Outcome run_em(const cli::Arguments& arguments, cli::Report& report);

/// Reports shapes, bytes and flops for --dry-run.
void report_em_cost(const cli::Arguments& arguments, const EmTask& task, cli::Report& report);

}  // namespace attn::tools
