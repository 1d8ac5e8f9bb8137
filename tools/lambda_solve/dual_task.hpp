#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "cli/command.hpp"
#include "common/heads/attention_input.hpp"
#include "common/heads/heads.hpp"
#include "common/results/result_kinds.hpp"
#include "common/results/results.hpp"
#include "fenchel/dual.hpp"
#include "reports/dual_report.hpp"
#include "tensor/buffer.hpp"

namespace attn::tools {

/// The options of lambda-solve, resolved.
struct DualTaskOptions {
  ScoreOptions scores;
  std::string settings_left;  ///< settings of an earlier run that this run does not use
  double alpha = 1;
  std::optional<double> radius;  ///< squared, in place of alpha
  double template_scale = 1;     ///< factor of k, x or t
  double evidence_scale = 1;     ///< factor of q, its product with wk, or z
  std::optional<double> gamma;   ///< for optimal transport; unset for KL
  DualOptions solver;            ///< without threads
  std::set<std::string> emitted;

  bool emits(const std::string& name) const { return emitted.count(name) > 0; }
};

/// The task of lambda-solve for one section: INPUT, or one group of it.
struct DualTask {
  /// Checks everything except the numbers; reads only the cost. Throws the errors of
  /// AttentionInput, Error(usage) for options that would have no effect, Error(input) for an
  /// invalid cost or an energy that is not an inner product.
  DualTask(const cli::Arguments& arguments, io::InputBundle section);

  /// Whether `bundle` has datasets from which the task can be computed.
  static bool suffices(const cli::Arguments& arguments, const io::InputBundle& bundle);

  /// The effect of the run on results of earlier runs, and the inputs of its own results.
  RunEffect effect(const cli::Arguments& arguments) const;
  void report_params(cli::Report& report) const;
  std::vector<ArraySource> datasets() const;

  ProblemUnits units() const { return ProblemUnits(input.problems); }

  /// The part of the report that concerns all heads.
  DualHeading heading() const;

  /// Axes of templates and evidence: d, or D for projections.
  Index axes() const;
  Shape own_shape(const DualResultKind& kind) const;

  /// Heads, or some queries of a head at a time if memory is short, q is read as it is, and there
  /// is no checkpoint. Throws what plan_memory does.
  MemoryPlan plan(const cli::Arguments& arguments) const;

  io::InputBundle bundle;
  DualTaskOptions options;
  AttentionInput input;
  bool f64;
  std::optional<ArraySource> cost_dataset;
  Buffer<double> cost;                ///< (n, n)
  std::vector<Index> walled_sources;  ///< sources for which every target is forbidden by the cost

 private:
  void read_cost();
  HeadNeeds needs(Index queries) const;
};

/// Reports shapes, bytes and flops for --dry-run.
void report_dual_cost(const cli::Arguments& arguments, const DualTask& task, cli::Report& report);

}  // namespace attn::tools
