#pragma once

#include "attnkit/attention.hpp"
#include "score/packing.hpp"

namespace attn {

/// Throws Error(usage) for a scheme under which packed sequences would not have the results that
/// they have alone: transport, and sinkhorn with other numbers of keys than of queries, whose
/// column sums depend on both; and for relative positions that differ by sequence.
void require_packing(const Packing& packing, Scheme scheme, RelativePositions relative);

}  // namespace attn
