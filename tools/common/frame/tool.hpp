#pragma once

#include <string>
#include <vector>

#include "cli/command.hpp"

namespace attn::tools {

/// A tool that a program can also run within its own process, as the Python package does: `run`
/// prints nothing, leaves signals and limits of the process alone, and writes files only if
/// Arguments::host is absent.
struct ToolDefinition {
  cli::Declaration (*declare)();
  cli::Outcome (*run)(const cli::Arguments& arguments, cli::Report& report);
  std::vector<std::string> (*libraries)();
};

extern const ToolDefinition attn_compute;
extern const ToolDefinition basis_paths;
extern const ToolDefinition explain_away_stats;
extern const ToolDefinition lambda_solve;
extern const ToolDefinition mode_collapse_sim;
extern const ToolDefinition sinkhorn_iter;

}  // namespace attn::tools
