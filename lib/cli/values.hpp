#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/option.hpp"

namespace attn::cli {

/// Converts `text` to the value of an option. Throws Error(usage) that names the option, the text
/// and the accepted values: "--hybrid is 1.5, expected a number in [0, 1]".
Value parse_value(const Option& option, const std::string& text);

/// The values that parse_value accepts: "a number in [0, 1]", "one of unas, dnas".
std::string expectation(const Option& option);

/// Whether an option accepts `text` as its value, or as one item of its list.
bool is_item(const Option& option, const std::string& text);

/// Whether `text` is a word such as "true" or "off", which others take as the value of a switch.
bool is_switch_word(std::string_view text);

/// How to switch on or off, as the switch word says, an option that needs no value.
std::string hint_on_switch(const Option& option, std::string_view word);

/// Convert the whole text: a decimal number with or without an exponent, or an integer of digits
/// with or without a minus. Absent if the text is anything else or is out of the range of the type;
/// infinities and NaN are rejected.
std::optional<double> to_number(std::string_view text);
std::optional<Index> to_integer(std::string_view text);

/// Converts "512M", "1.5G" or "65536" to bytes, rounded down; K, M, G and T (in either case) are
/// powers of 1024. Absent if the text is anything else, or if the size is below 1 or exceeds Index.
std::optional<Index> to_bytes(std::string_view text);

/// The level N of "gzip:N" with N from 1 to 9; 4 for "gzip"; 0 for any other text.
int to_deflate_level(std::string_view text);

/// The parts of `text` between separators: "a,,b" has three, "" has one.
std::vector<std::string> split(std::string_view text, char separator);

}  // namespace attn::cli
