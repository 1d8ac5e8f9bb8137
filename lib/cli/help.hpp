#pragma once

#include <string>
#include <vector>

#include "cli/command.hpp"

namespace attn::cli {

/// What --help prints: at most 80 columns wide, ending with a line break, the same on every
/// machine.
std::string help_text(const Declaration& declaration);

/// What --version prints: "attn-compute 0.1.0", then a line per library.
std::string version_text(const Declaration& declaration, const std::vector<std::string>& libraries);

}  // namespace attn::cli
