#pragma once

#include "cli/command.hpp"
#include "sinkhorn_iter/transport_result.hpp"
#include "sinkhorn_iter/transport_task.hpp"

namespace attn::tools {

/// Fills in the report's result. Throws Error(numerical), naming the problem, if the worst cannot
/// be solved; else returns the summary line and the exit status.
cli::Outcome conclude_transport(const TransportTask& task, const TransportResults& results,
                                cli::Report& report);

}  // namespace attn::tools
