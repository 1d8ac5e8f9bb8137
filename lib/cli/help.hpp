#pragma once

#include <string>
#include <vector>

#include "cli/command.hpp"

namespace attn::cli {

/// The text of --help: at most 80 columns wide, ending with a line break, the same on every
/// machine.
std::string help_text(const Declaration& declaration);

/// The text of --version: "attn-compute 0.1.0", then a line for each library.
std::string version_text(const Declaration& declaration, const std::vector<std::string>& libraries);

}  // namespace attn::cli
