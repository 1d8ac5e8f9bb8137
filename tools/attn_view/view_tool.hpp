#pragma once

#include "cli/command.hpp"

namespace attn::tools {

/// Runs attn-view: finds the figures of all heads, chooses those whose weights fit, and writes the
/// page.
cli::Outcome run_view(const cli::Arguments& arguments, cli::Report& report);

}  // namespace attn::tools
