#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace attn::tools {

/// The maximum number of parts of a dotted key, and of nested brackets, in a text to be parsed.
constexpr std::size_t most_key_parts = 32;
constexpr std::size_t most_brackets = 32;

/// Throws Error(input) "FILE:LINE: ..." if a key of the TOML `text` has more than most_key_parts
/// parts, or arrays and inline tables are nested more than most_brackets deep: toml++ represents
/// them by values nested as deep, and destroys these by recursion. Strings and comments may contain
/// anything; other errors in the text are left to the parser.
void require_shallow_toml(std::string_view text, const std::string& file);

}  // namespace attn::tools
