#pragma once

#include <string>
#include <string_view>
#include <vector>

// Hints on options that a tool does not have.

namespace attn::cli {

/// What an option that no tool has is called here: "the number of threads is --threads". Empty if
/// it is unknown, or if `names`, the options of the tool, lack what it is called.
std::string hint_on_other_name(std::string_view name, const std::vector<std::string>& names);

/// "--sort is an option of explain-away-stats, lambda-solve and 5 more"; empty if no tool has it.
std::string hint_on_other_tools(std::string_view name);

}  // namespace attn::cli
