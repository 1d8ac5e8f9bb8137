#pragma once

#include <set>
#include <string>
#include <vector>

#include "attnkit/collapse.hpp"
#include "cli/command.hpp"
#include "cli/report.hpp"
#include "mode_collapse_sim/point_plan.hpp"
#include "mode_collapse_sim/point_sets.hpp"

namespace attn::tools {

/// The options of mode-collapse-sim simulate.
struct SimulationTask {
  /// Throws Error(usage) for contradictory options.
  SimulationTask(const cli::Arguments& arguments, const io::InputBundle* input);

  PointSets sets;
  std::vector<std::string> names;  ///< of the schemes
  std::vector<collapse::SelfAttentionOptions> schemes;
  Index steps;
  double width;   ///< width for the number of modes
  double merged;  ///< centres nearer to each other than this count as merged
  std::set<std::string> emitted;

  bool emits(const std::string& name) const { return emitted.count(name) > 0; }
  std::string energy() const;

  /// Whether the steps under `scheme` have a log-likelihood.
  bool has_likelihood(std::size_t scheme) const;

  /// The most bytes that the plans for one set take.
  std::int64_t plan_bytes(int threads) const;

  /// Fits the work into --memory.
  PointPlan plan(const cli::Arguments& arguments) const;
};

/// Declares the options of simulate except the options of the points.
void declare_simulation(cli::Declaration& d);

/// Runs steps of self-attention on points.
cli::Outcome run_simulation(const cli::Arguments& arguments, cli::Report& report);

/// Reports shapes, bytes and flops for --dry-run.
void report_simulation_cost(const cli::Arguments& arguments, const SimulationTask& task,
                            cli::Report& report);

}  // namespace attn::tools
