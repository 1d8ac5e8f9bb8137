#pragma once

#include "attnkit/collapse.hpp"

namespace attn::collapse {

/// The same by the formulas with r itself, where `distances` uses 1/r: a check of `distances` and
/// of the symmetry in r. For r in [1, 1e301]. unas and dnas have the error of `distances`, but
/// relative to at least 2.3e-308; gap is their difference.
Distances printed_distances(double r, double a);

}  // namespace attn::collapse
