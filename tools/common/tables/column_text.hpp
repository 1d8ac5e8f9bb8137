#pragma once

#include <string>
#include <string_view>
#include <vector>

/// Formatting of tables for people.
namespace attn::tools {

/// Text for a table: control characters are made visible, and at most `width` characters are kept.
std::string printable(std::string_view name, std::size_t width);

/// The number of characters of UTF-8 text.
std::size_t characters(std::string_view text);

/// `text` padded with spaces to `width` characters, with at least one space.
std::string padded(const std::string& text, std::size_t width);

/// Lines of cells, each cleaned by one_line, each column as wide as its widest cell and two spaces.
std::string aligned(std::vector<std::vector<std::string>> rows);

/// Three digits, "-" for NaN.
std::string number(double value);

/// 1e-8 rather than 1e-08.
std::string compact(double value);

}  // namespace attn::tools
