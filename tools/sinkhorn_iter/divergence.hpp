#pragma once

#include "sinkhorn_iter/transport_task.hpp"

namespace attn::tools {

/// Throws Error(usage) for terms of the scores, such as a mask, that the problem of a side with
/// itself cannot have.
void require_divergence(const TransportTask& task);

/// Throws Error(input) unless rows == cols: a divergence needs a cost on one common support.
void require_square(const TransportTask& task, Index rows, Index cols);

}  // namespace attn::tools
