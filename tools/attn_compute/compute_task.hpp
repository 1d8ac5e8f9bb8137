#pragma once

#include "attn_compute/attention_results.hpp"
#include "cli/command.hpp"
#include "common/results.hpp"
#include "io/input.hpp"

namespace attn::tools {

/// What attn-compute has to do for one section: INPUT, or one group of it.
struct ComputeTask {
  /// Looks at everything but the numbers. Throws what resolving the options and AttentionInput
  /// throw, and Error(usage) for options that would have no effect.
  ComputeTask(const cli::Arguments& arguments, io::InputBundle section);

  /// What results of earlier runs depend on, and what this run makes its own from.
  RunEffect effect(const cli::Arguments& arguments) const;

  void report_params(cli::Report& report) const;
  std::vector<io::InputDataset> datasets() const { return input.datasets(); }

  io::InputBundle bundle;
  ComputeOptions options;
  AttentionInput input;
  bool f64;
};

}  // namespace attn::tools
