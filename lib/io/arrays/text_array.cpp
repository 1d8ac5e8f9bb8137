#include "io/arrays/text_array.hpp"

#include <algorithm>
#include <stdexcept>

namespace attn::io {
namespace {

constexpr bool is_continuation(char byte) { return (byte & 0xc0) == 0x80; }

/// The bits of a character's first byte that belong to its number.
constexpr char32_t first_bits(unsigned char byte) {
  if (byte < 0x80) return byte;
  if (byte < 0xe0) return byte & 0x1fu;
  return byte < 0xf0 ? byte & 0x0fu : byte & 0x07u;
}

}  // namespace

std::size_t characters(const std::string& utf8) {
  return utf8.size() -
         static_cast<std::size_t>(std::count_if(utf8.begin(), utf8.end(), is_continuation));
}

std::u32string padded_ucs4(const std::string& utf8, std::size_t width) {
  std::u32string text;
  text.reserve(width);
  for (const char byte : utf8) {
    if (!is_continuation(byte)) {
      text += first_bits(static_cast<unsigned char>(byte));
    } else if (!text.empty()) {
      text.back() = text.back() << 6 | (static_cast<unsigned char>(byte) & 0x3fu);
    }
  }
  if (text.size() > width) throw std::invalid_argument("a text is longer than its array allows");
  text.resize(width, U'\0');
  return text;
}

}  // namespace attn::io
