#pragma once

#include <string>
#include <string_view>

#include "tensor/shape.hpp"

/// How the tables of explain-away-stats spell what is in them.
namespace attn::tools {

/// Ready for a table: what would not print made visible, at most `width` characters wide.
std::string printable(std::string_view name, std::size_t width);

/// The characters of UTF-8 text.
std::size_t characters(std::string_view text);

/// `text` and blanks up to `width` characters, at least one blank.
std::string padded(const std::string& text, std::size_t width);

/// Three digits, "-" for NaN.
std::string number(double value);

/// 1e-8 rather than 1e-08.
std::string compact(double value);

/// "3", "0,3": where a head lies among the leading axes.
std::string head_label(const Shape& leading, Index head);

}  // namespace attn::tools
