#pragma once

#include "attnkit/collapse.hpp"

namespace attn::collapse {

/// The same by the formulas above in r as it is, where distances goes by 1/r: a check of it, and of
/// the symmetry in r. For r in [1, 1e301]; the error of unas and dnas is that of distances, but
/// relative to at least 2.3e-308; gap is their difference.
Distances printed_distances(double r, double a);

}  // namespace attn::collapse
