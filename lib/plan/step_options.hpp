#pragma once

#include "attnkit/basis_paths.hpp"

namespace attn::plan {

/// Throws Error(usage) that names an option out of its range. Options of Adam's rule are checked
/// only for optimizers that use it.
void require_step_options(const StepOptions& options);

/// The options of step `number`. Throws as require_step_options.
StepOptions at_step(StepOptions options, Index number, double rate, double gradient_factor);

}  // namespace attn::plan
