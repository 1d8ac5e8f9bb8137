#pragma once

#include "cli/command.hpp"
#include "cli/progress.hpp"
#include "common/runs/checkpoint.hpp"
#include "io/output.hpp"
#include "sinkhorn_iter/transport_result.hpp"
#include "sinkhorn_iter/transport_task.hpp"

namespace attn::tools {

/// Declares the formulas, datasets, results and references of sinkhorn-iter for its man page.
void declare_transport_datasets(cli::Declaration& declaration);

/// Solves the problems of one section and writes the requested results. If some cannot be solved,
/// the other results are incomplete, and nothing may be committed. Problems that `checkpoint` holds
/// are taken from there; it may be null.
TransportResults solve_section(const cli::Arguments& arguments, const TransportTask& task,
                               io::OutputBundle output, Checkpoint* checkpoint,
                               cli::Progress& progress, cli::Report& report);

/// Fills in the report's result. Throws Error(numerical), naming the problem, if the worst cannot
/// be solved; else returns the summary line and the exit status.
cli::Outcome conclude_transport(const TransportTask& task, const TransportResults& results,
                                cli::Report& report);

}  // namespace attn::tools
