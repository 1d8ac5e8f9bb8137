#pragma once

#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "cli/command.hpp"
#include "cli/resolve.hpp"

namespace attn::cli {

/// A command line (without the program's name) as `declaration` understands it, checked and
/// resolved. Throws Error(usage).
Arguments parse(const std::vector<std::string>& command_line, const Declaration& declaration,
                const Environment& environment);

/// Whether --help (or -h) or --version stands among the options: they win over whatever else is
/// wrong with a command line.
bool asks_for(const std::vector<std::string>& command_line, std::string_view long_name,
              std::string_view short_name);

/// Where --json would have the report go on a command line that parse() refuses: "" is standard
/// output, unless a bundle may have been meant to go there. Absent: nowhere, also where another
/// word leads to the same file.
std::optional<std::string> json_of_refused(const std::vector<std::string>& command_line,
                                           const Declaration& declaration);

/// Every option resolved, by its long name with '_' for '-', for the JSON's `params`; before them
/// "verb" (where the tool has some) and "arguments", the positional words.
nlohmann::ordered_json params_of(const Arguments& arguments);

/// The version of the toolkit: "0.1.0".
std::string version();

}  // namespace attn::cli
