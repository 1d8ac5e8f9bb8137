#pragma once

#include <optional>

#include "cli/command.hpp"
#include "common/results/settings.hpp"
#include "mechanisms/hard_samples.hpp"

namespace attn::tools {

/// The options of --samples, parsed.
struct SamplingOptions {
  enum class Baseline { number, mean, best, running };

  mechanisms::HardSampling sampling;
  Baseline baseline = Baseline::running;
  double number = 0;  ///< the baseline, if it is a number
  bool enumerate = false;

  bool has_baseline() const { return baseline != Baseline::number || number != 0; }
};

void declare_sampling(cli::Declaration& declaration);

/// Absent without --samples. Throws Error(usage) for options that would have no effect, and for an
/// invalid baseline.
std::optional<SamplingOptions> sampling_options(const cli::Arguments& arguments);

/// The settings of gradients.
Settings sampling_settings(const cli::Arguments& arguments);

}  // namespace attn::tools
