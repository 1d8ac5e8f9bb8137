#pragma once

#include "cli/command.hpp"
#include "cli/report.hpp"

namespace attn::tools {

/// Declares --r and --a of mode-collapse-sim curve.
void declare_curve(cli::Declaration& d);

/// The closed forms over a grid, and what is to hold of them.
cli::Outcome run_curve(const cli::Arguments& arguments, cli::Report& report);

}  // namespace attn::tools
