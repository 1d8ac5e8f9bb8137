#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace attn::tools {

/// The most parts of a dotted key, and the most brackets within brackets, in what is parsed.
constexpr std::size_t most_key_parts = 32;
constexpr std::size_t most_brackets = 32;

/// Throws Error(input) "FILE:LINE: ..." where a key of the TOML `text` has more than most_key_parts
/// parts, or arrays and inline tables are nested more than most_brackets deep. What toml++ makes of
/// such a text is nested likewise, and is taken apart by recursion. Strings and comments may hold
/// anything; a text that is no TOML is left to the parser.
void require_shallow_toml(std::string_view text, const std::string& file);

}  // namespace attn::tools
