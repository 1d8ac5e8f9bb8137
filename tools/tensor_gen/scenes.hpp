#pragma once

#include "cli/command.hpp"

namespace attn::tools {

/// Declares the options, datasets and results of the verb scenes.
void declare_scenes(cli::Declaration& tool);

/// The run of the verb scenes: writes scenes of several views with questions.
cli::Outcome run_scenes(const cli::Arguments& arguments, cli::Report& report);

}  // namespace attn::tools
