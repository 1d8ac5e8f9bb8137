#pragma once

#include "sinkhorn_iter/transport_result.hpp"
#include "sinkhorn_iter/transport_task.hpp"

namespace attn::tools {

/// If result.feasibility says that no plan has the problem's marginals, or that the plan has no
/// finite potentials, gives the reason in result.refusal and result.hint.
void refuse_infeasible(const TransportTask& task, TransportResult& result);

}  // namespace attn::tools
