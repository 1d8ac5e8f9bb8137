#pragma once

#include "cli/command.hpp"
#include "cli/progress.hpp"
#include "cli/report.hpp"
#include "io/output.hpp"
#include "reports/bulk_report.hpp"
#include "sinkhorn_iter/bulk_task.hpp"

namespace attn::tools {

/// How the problems of a task are divided: each of `workers` threads reads, solves and writes
/// `problems` at a time, a multiple of whole chains; and the memory that all of them take.
struct BulkPlan {
  int workers = 1;
  Index problems = 1;
  std::int64_t bytes = 0;
};

/// The division for --threads and --memory. Throws Error(memory) if not even one problem, or one
/// chain, fits.
BulkPlan plan_bulk(const cli::Arguments& arguments, const BulkTask& task);

/// Solves the problems of a section and writes their results. Bits depend neither on threads nor on
/// memory. Throws Error(input) naming dataset and index of a number that is not allowed,
/// Error(numerical) for a gradient beyond the type.
BulkFigures run_bulk(const cli::Arguments& arguments, const BulkTask& task,
                     io::OutputBundle& output, cli::Progress& progress, cli::Report& report);

}  // namespace attn::tools
