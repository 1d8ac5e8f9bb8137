#pragma once

#include <set>
#include <string>
#include <vector>

#include "cli/command.hpp"
#include "cli/report.hpp"
#include "collapse/cluster_statistics.hpp"
#include "collapse/self_attention.hpp"
#include "common/totals.hpp"
#include "mode_collapse_sim/point_plan.hpp"
#include "mode_collapse_sim/point_sets.hpp"

namespace attn::tools {

/// What mode-collapse-sim simulate was asked for.
struct SimulationTask {
  /// Throws Error(usage) for options that do not fit together.
  SimulationTask(const cli::Arguments& arguments, const io::InputBundle* input);

  PointSets sets;
  std::vector<std::string> names;  ///< of the schemes
  std::vector<collapse::SelfAttention> schemes;
  Index steps;
  double width;   ///< of the modes
  double merged;  ///< centres nearer to each other than this count as one
  std::set<std::string> emitted;

  bool emits(const std::string& name) const { return emitted.count(name) > 0; }
  std::string energy() const;

  /// Fits the work into --memory.
  PointPlan plan(const cli::Arguments& arguments) const;
};

/// What is kept of a scheme's runs for the report: a number for each set and step.
struct SchemeRuns {
  std::vector<double> distance;  ///< (sets, T + 1): the least of any two centres
  std::vector<double> spread;    ///< the largest of any cluster
  std::vector<double> modes;
  Totals totals;  ///< of all steps
};

/// Declares what simulate has besides the points.
void declare_simulation(cli::Declaration& d);

/// Points that attend to each other, step by step.
cli::Outcome run_simulation(const cli::Arguments& arguments, cli::Report& report);

/// Fills in the report; `runs` by scheme.
cli::Outcome report_simulation(const SimulationTask& task, const std::vector<SchemeRuns>& runs,
                               cli::Report& report);

/// Shapes, bytes and flops, for --dry-run.
void report_simulation_cost(const cli::Arguments& arguments, const SimulationTask& task,
                            cli::Report& report);

}  // namespace attn::tools
