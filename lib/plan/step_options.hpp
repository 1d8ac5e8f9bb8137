#pragma once

#include "attnkit/basis_paths.hpp"

namespace attn::plan {

/// Throws Error(usage) that names an option out of its range. Those of Adam's rule are looked at
/// only if the optimizer is one of these.
void require_step_options(const StepOptions& options);

}  // namespace attn::plan
