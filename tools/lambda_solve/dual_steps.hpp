#pragma once

#include <optional>
#include <vector>

#include "cli/command.hpp"
#include "cli/progress.hpp"
#include "common/runs/checkpoint.hpp"
#include "io/output.hpp"
#include "lambda_solve/dual_task.hpp"
#include "reports/dual_report.hpp"

namespace attn::tools {

/// Declares the formulas, datasets, results and references of lambda-solve for its man page.
void declare_dual_datasets(cli::Declaration& declaration);

/// Solves one section head by head, on all threads, and writes results and attributes to `output`,
/// if there is one, without committing it. Returns the figures of each head. Heads that
/// `checkpoint` holds are taken from there; it may be null.
std::vector<DualHead> solve_section(const cli::Arguments& arguments, const DualTask& task,
                                    std::optional<io::OutputBundle> output, Checkpoint* checkpoint,
                                    cli::Progress& progress, cli::Report& report);

}  // namespace attn::tools
