#pragma once

#include "basis_paths/path_panels.hpp"
#include "cli/command.hpp"

namespace attn::tools {

/// Declares the formulas, datasets, results and references of basis-paths for its man page.
void declare_path_datasets(cli::Declaration& declaration);

// The verbs of basis-paths, one function each, applied to one section. They write results to the
// run's bundle and figures to its report's `result`, and return the text of the summary line.

std::string identify_paths(PathRun& run);
std::string find_path_values(PathRun& run);
std::string reconstruct_from_paths(PathRun& run);
/// For reconstruct and identify with paths: the number of paths, or of rows of all paths, that are
/// in memory at a time besides the basis of a head. Throws Error(memory).
BlockPlan plan_paths(const cli::Arguments& arguments, const PathTask& task);

std::string rescale_weights(PathRun& run);
std::string start_weights(PathRun& run);

/// The largest relative difference of the sums of gradient times weight, which no rescaling
/// changes, that rounding of the gradients can explain.
template <class T>
constexpr double inconsistent = sizeof(T) == sizeof(float) ? 1e-2 : 1e-6;

/// Throws Error(numerical) at a head with singular columns unless --on-singular allows them; the
/// report lists them in either case.
std::string step_weights(PathRun& run);

/// Reports {"shape"} and, if there is one, the rule of the skeleton, for every verb.
void report_path_shape(const PathTask& task, cli::Report& report);

/// Reports the structure of the paths of any d1 × d2 weights, with `length` inputs if known.
/// Returns whether the rank agrees with the theorem.
bool report_structure(const cli::Arguments& arguments, Index rows, Index columns,
                      std::optional<Index> length, cli::Report& report);

/// Whether the paths of every head (the dataset path, basis_path, or the paths of ABPI) are
/// independent and complete. Reports this and the structure.
bool check_paths(const cli::Arguments& arguments, const PathTask& task, Checkpoint* checkpoint,
                 cli::Report& report);

/// Reports shapes and bytes for --dry-run.
void report_path_cost(const cli::Arguments& arguments, const PathTask& task, cli::Report& report);

}  // namespace attn::tools
