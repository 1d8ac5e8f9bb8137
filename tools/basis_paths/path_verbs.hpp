#pragma once

#include "basis_paths/path_panels.hpp"

namespace attn::tools {

// What basis-paths does with one section, one function for each verb: results go to the run's
// bundle, figures to its report's `result`. Each gives the words for a summary line.

std::string identify_paths(PathRun& run);
std::string find_path_values(PathRun& run);
std::string reconstruct_from_paths(PathRun& run);
/// Of reconstruct, where it makes paths: how many of them, or rows of all of them, are in memory at
/// a time beside the basis of a head. Throws Error(memory).
BlockPlan plan_paths(const cli::Arguments& arguments, const PathTask& task);

std::string rescale_weights(PathRun& run);

/// Throws Error(numerical) at a head with singular columns unless --on-singular says otherwise; the
/// report has them then, too.
std::string step_weights(PathRun& run);

/// What there is to say of any verb: {"shape"} and, with a skeleton, which.
void report_path_shape(const PathTask& task, cli::Report& report);

/// Structure of the paths of d1 × d2 weights, whatever they are, for `length` inputs where that is
/// known. Whether the rank is that of the theorem.
bool report_structure(const cli::Arguments& arguments, Index rows, Index columns,
                      std::optional<Index> length, cli::Report& report);

/// Whether the paths of every head are independent and complete: those of the dataset path, of
/// basis_path, or ABPI's. Reports it, and the structure.
bool check_paths(const cli::Arguments& arguments, const PathTask& task, cli::Report& report);

/// Shapes and bytes of what would be done, for --dry-run.
void report_path_cost(const cli::Arguments& arguments, const PathTask& task, cli::Report& report);

}  // namespace attn::tools
