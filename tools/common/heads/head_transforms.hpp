#pragma once

#include <vector>

#include "head/attention_sources.hpp"
#include "io/input.hpp"

namespace attn::tools {

/// Reads the norms and rotary positions of projected queries and keys into q and k, for problems
/// with these leading axes. Returns the datasets that it read. Throws Error(input) naming a dataset
/// whose shape, type or numbers do not fit, two datasets that say the same, norms without
/// norm_epsilon, and biases without the axis of heads that a norm over all heads needs.
std::vector<ArraySource> take_transforms(const io::InputBundle& bundle, const Shape& leading,
                                         Vectors& q, Vectors& k);

}  // namespace attn::tools
