#pragma once

#include <string>
#include <vector>

#include "io/input.hpp"

namespace attn::tools {

/// The names of the datasets that say what a model does to projected queries and keys: norms and
/// rotary positions.
const std::vector<std::string>& transform_names();

/// Throws Error(usage) naming one of these datasets, which `who` does not read.
void require_no_transforms(const io::InputBundle& bundle, const std::string& who);

}  // namespace attn::tools
