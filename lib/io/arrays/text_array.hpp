#pragma once

#include <cstddef>
#include <string>

namespace attn::io {

/// The number of characters of a text in UTF-8.
std::size_t characters(const std::string& utf8);

/// The characters of a text in UTF-8 as NumPy's U stores them: a number of 32 bits each, followed
/// by zeros up to `width`. Throws std::invalid_argument if the text is longer.
std::u32string padded_ucs4(const std::string& utf8, std::size_t width);

}  // namespace attn::io
