#pragma once

#include <string_view>
#include <unordered_map>
#include <vector>

#include "tensor/shape.hpp"

namespace attn::train {

/// How often each symbol of a text occurs; the keys point into the text.
using SymbolCounts = std::unordered_map<std::string_view, Index>;

inline constexpr std::string_view line_end = "\n";

/// Throws Error(input) with the offset of the first byte that is not UTF-8, from 0.
void require_utf8(std::string_view text);

/// The code points of UTF-8 text.
std::vector<std::string_view> points_of(std::string_view text);

/// The parts between ASCII white space and, if requested, line_end for each line feed.
std::vector<std::string_view> words_of(std::string_view text, bool line_ends);

SymbolCounts counts_of(const std::vector<std::string_view>& symbols);

/// The symbols by falling count, then by bytes.
std::vector<std::string_view> ranked(const SymbolCounts& counts);

}  // namespace attn::train
