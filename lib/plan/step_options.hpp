#pragma once

#include "attnkit/basis_paths.hpp"

namespace attn::plan {

/// Throws Error(usage) that names an option out of its range. Options of Adam's rule are checked
/// only for optimizers that use it.
void require_step_options(const StepOptions& options);

}  // namespace attn::plan
