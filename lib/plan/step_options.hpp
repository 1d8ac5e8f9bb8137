#pragma once

#include "attnkit/basis_paths.hpp"

namespace attn::plan {

/// Throws Error(usage) that names an option out of its range. Options of Adam's rule are checked
/// only for optimizers that use it.
void require_step_options(const StepOptions& options);

/// `options` with this number, rate and gradient_factor in place of its own. Throws the errors of
/// require_step_options.
StepOptions at_step(StepOptions options, Index number, double rate, double gradient_factor);

}  // namespace attn::plan
