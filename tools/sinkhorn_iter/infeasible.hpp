#pragma once

#include "sinkhorn_iter/transport_result.hpp"
#include "sinkhorn_iter/transport_task.hpp"

namespace attn::tools {

/// Says in result.refusal and result.hint why no plan has the problem's marginals, or no finite
/// potentials belong to it, if result.feasibility says so.
void refuse_infeasible(const TransportTask& task, TransportResult& result);

}  // namespace attn::tools
