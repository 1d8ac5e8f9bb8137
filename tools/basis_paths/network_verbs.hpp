#pragma once

#include "basis_paths/network_run.hpp"

namespace attn::tools {

// The verbs of basis-paths --network relu, one function each, applied to one section. They write
// results to the run's bundle and figures to its report's `result`, and return the text of the
// summary line.

std::string identify_paths(NetworkRun& run);
std::string find_path_values(NetworkRun& run);
std::string reconstruct_from_paths(NetworkRun& run);
std::string rescale_weights(NetworkRun& run);

/// Throws Error(numerical) at a network with a singular node.
std::string step_weights(NetworkRun& run);

/// Reports {"shape"} and, if there is one, the rule of the skeleton, for every verb.
void report_network_shape(const NetworkTask& task, cli::Report& report);

/// Reports the weights, hidden nodes and paths of a network and the rank of its paths, found by
/// elimination or taken from the checkpoint, which may be null. Returns whether the rank is weights
/// less hidden nodes. Throws Error(memory).
bool report_structure(const cli::Arguments& arguments, const ReluLayers& layers,
                      Checkpoint* checkpoint, cli::Report& report);

/// Whether the paths of every network (the dataset path, basis_path, or the paths of the skeleton)
/// are independent and complete. Reports this and the structure.
bool check_paths(const cli::Arguments& arguments, const NetworkTask& task, Checkpoint* checkpoint,
                 cli::Report& report);

/// Memory for one network. Throws Error(memory) if it does not fit, or one chunk of a dataset.
std::int64_t plan_network(const cli::Arguments& arguments, const NetworkTask& task);

/// Reports shapes and bytes for --dry-run.
void report_path_cost(const cli::Arguments& arguments, const NetworkTask& task,
                      cli::Report& report);

}  // namespace attn::tools
