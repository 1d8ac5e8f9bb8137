#pragma once

#include "cli/command.hpp"
#include "cli/progress.hpp"
#include "common/runs/checkpoint.hpp"
#include "io/output.hpp"
#include "sinkhorn_iter/transport_result.hpp"
#include "sinkhorn_iter/transport_task.hpp"

namespace attn::tools {

/// Solves the problems of one section and writes the requested results. If some cannot be solved,
/// the other results are incomplete, and nothing may be committed. Problems that `checkpoint` holds
/// are taken from there; it may be null.
TransportResults solve_section(const cli::Arguments& arguments, const TransportTask& task,
                               io::OutputBundle output, Checkpoint* checkpoint,
                               cli::Progress& progress, cli::Report& report);

}  // namespace attn::tools
