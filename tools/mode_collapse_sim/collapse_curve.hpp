#pragma once

#include "cli/command.hpp"
#include "cli/report.hpp"

namespace attn::tools {

/// Declares --r and --a of mode-collapse-sim curve.
void declare_curve(cli::Declaration& d);

/// Evaluates the closed forms over a grid and checks the properties that must hold.
cli::Outcome run_curve(const cli::Arguments& arguments, cli::Report& report);

}  // namespace attn::tools
