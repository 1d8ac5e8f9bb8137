#pragma once

#include <string>

#include "cli/command.hpp"

namespace attn::cli {

/// A declaration as JSON, for a program that offers the tool in another form: an object with
/// "tool", "summary", "about", "verbs", "options", "datasets", "results", "report", "formulas" and
/// "references". Each option has "name", "kind", "help", "verbs" (those that accept it; none: all),
/// "common" (whether every tool of its role has it), and where they exist "values", "default" and
/// "default_words".
std::string description_json(const Declaration& declaration);

}  // namespace attn::cli
