#pragma once

#include "cli/command.hpp"

namespace attn::tools {

/// The verb that compares any weights, or links, with links set by hand.
inline constexpr const char* measure_verb = "measure";

/// Declares the options, datasets and columns of this verb.
void declare_measure(cli::Declaration& declaration);

cli::Outcome measure(const cli::Arguments& arguments, cli::Report& report);

}  // namespace attn::tools
