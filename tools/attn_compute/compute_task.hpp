#pragma once

#include "attn_compute/attention_results.hpp"
#include "cli/command.hpp"
#include "common/results/results.hpp"
#include "io/input.hpp"

namespace attn::tools {

/// The task of attn-compute for one section: INPUT, or one group of it.
struct ComputeTask {
  /// Checks everything but the numbers. Throws the errors of resolving the options and of
  /// AttentionInput, and Error(usage) for options that would have no effect.
  ComputeTask(const cli::Arguments& arguments, io::InputBundle section);

  /// Whether `bundle` has datasets from which the task can be computed.
  static bool suffices(const cli::Arguments& arguments, const io::InputBundle& bundle);

  /// The effect of the run on results of earlier runs, and the inputs of its own results.
  RunEffect effect(const cli::Arguments& arguments) const;

  /// Heads that add into one gradient, or that are joined, are one unit.
  ProblemUnits units() const;

  void report_params(cli::Report& report) const;
  std::vector<ArraySource> datasets() const { return input.datasets(); }

  io::InputBundle bundle;
  ComputeOptions options;
  AttentionInput input;
  bool f64;
};

}  // namespace attn::tools
