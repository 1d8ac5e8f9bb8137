#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/option.hpp"

namespace attn::cli {

/// The value that `text` is for `option`. Throws Error(usage) naming the option, the text and what
/// was expected: "--hybrid is 1.5, expected a number in [0, 1]".
Value parse_value(const Option& option, const std::string& text);

/// "a number in [0, 1]", "one of unas, dnas", "an integer >= 1": what parse_value takes.
std::string expectation(const Option& option);

// The whole text, in decimal or with an exponent, nothing before or after; absent where it is
// anything else, or out of the type's range. Infinities and NaN are not numbers here.
std::optional<double> to_number(std::string_view text);
std::optional<Index> to_integer(std::string_view text);

/// "512M", "1.5G", "65536" as bytes, rounded down; K, M, G, T (either case) are powers of 1024.
/// Absent where it is anything else, less than one byte, or does not fit an Index.
std::optional<Index> to_bytes(std::string_view text);

/// The level of "gzip:N", N in 1 to 9, or of "gzip" (4); 0 where it is anything else.
int to_deflate_level(std::string_view text);

/// The parts of `text` between separators: "a,,b" has three, "" has one.
std::vector<std::string> split(std::string_view text, char separator);

}  // namespace attn::cli
