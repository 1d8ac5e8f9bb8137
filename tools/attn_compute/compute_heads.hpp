#pragma once

#include "attn_compute/compute_report.hpp"
#include "attn_compute/compute_task.hpp"
#include "cli/command.hpp"
#include "cli/progress.hpp"
#include "io/output.hpp"

namespace attn::tools {

/// Computes one section head by head and writes results and attributes to `output` without
/// committing it.
Totals compute_section(const cli::Arguments& arguments, const ComputeTask& task,
                       io::OutputBundle output, cli::Progress& progress, cli::Report& report);

}  // namespace attn::tools
