#pragma once

#include <optional>
#include <string>

#include "cli/command.hpp"

namespace attn::tools {

/// The first input that can be read only once, and by one process: "INPUT is standard input", "-i q
/// is a pipe". Nothing if all inputs are files, or do not exist.
std::optional<std::string> stream_input(const cli::Arguments& arguments);

}  // namespace attn::tools
