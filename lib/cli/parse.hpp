#pragma once

#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "cli/command.hpp"
#include "cli/resolve.hpp"

namespace attn::cli {

/// Parses a command line (without the program's name), checks it against the declaration and
/// resolves the defaults. Throws Error(usage).
Arguments parse(const std::vector<std::string>& command_line, const Declaration& declaration,
                const Environment& environment);

/// Whether an option such as --help (or -h) is on the command line. Options that print information
/// take precedence over any mistake in the rest of it.
bool asks_for(const std::vector<std::string>& command_line, std::string_view long_name,
              std::string_view short_name = {});

/// The text of --help=NAME, if requested. Throws Error(usage) for any name but the tool's topic.
std::optional<std::string> topic_text(const std::vector<std::string>& command_line,
                                      const Declaration& declaration);

/// The value of --completion on a command line, in either form, if there is one. Throws
/// Error(usage) if the value is missing or is no shell.
std::optional<std::string> completion_shell(const std::vector<std::string>& command_line,
                                            const Declaration& declaration);

/// The destination that --json names on a command line that parse() refuses: "" is standard output,
/// unless a bundle might go there. Absent if there is no --json, or if another word leads to the
/// same file.
std::optional<std::string> json_of_refused(const std::vector<std::string>& command_line,
                                           const Declaration& declaration);

/// The object `params` of the JSON report: "verb" (if the tool has verbs), "arguments" (the
/// positional words) and every option resolved, by its long name with '_' for '-'.
nlohmann::ordered_json params_of(const Arguments& arguments);

/// The version of the toolkit: "0.1.0".
std::string version();

}  // namespace attn::cli
