#pragma once

#include "attn_compute/compute_report.hpp"
#include "attn_compute/compute_task.hpp"
#include "cli/command.hpp"
#include "cli/progress.hpp"
#include "io/output.hpp"

namespace attn::tools {

/// Computes one section head by head and writes results and attributes to `output` without
/// committing it. Heads that `checkpoint` holds are taken from there; it may be null.
ComputeTotals compute_section(const cli::Arguments& arguments, const ComputeTask& task,
                              io::OutputBundle output, Checkpoint* checkpoint,
                              cli::Progress& progress, cli::Report& report);

}  // namespace attn::tools
