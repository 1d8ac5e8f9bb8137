#pragma once

#include <functional>

#include "cli/command.hpp"
#include "common/frame/tool.hpp"

namespace attn::tools {

/// The main function of every tool: cli::run_tool plus the handling of inputs and outputs
/// (temporaries are removed on a signal or a failure; HDF5's own messages are shown only with -v;
/// after a failure the process ends by _exit, so that HDF5 does not retry a failed write).
/// --version shows `libraries` besides HDF5 and libzip: "OpenBLAS 0.3.21".
int tool_main(int argc, char** argv, const cli::Declaration& declaration,
              const std::function<cli::Outcome(const cli::Arguments&, cli::Report&)>& run,
              const cli::Libraries& libraries = {});

int tool_main(int argc, char** argv, const ToolDefinition& tool);

}  // namespace attn::tools
