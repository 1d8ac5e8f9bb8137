#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace attn {

/// Numbers of neighbouring lines, queries or keys: so many bytes for each, in pieces that follow
/// each other. Who has the numbers shows them like this to be written and read again.
struct LineNumbers {
  std::int64_t width = 0;  ///< bytes of a line
  std::vector<std::span<std::byte>> pieces = {};

  /// Appends the numbers of further lines, `columns` for each, of the same type in all pieces.
  template <class Values>
  void add(Values& values, std::int64_t columns = 1) {
    const auto numbers = std::span(values.data(), static_cast<std::size_t>(values.size()));
    width = columns * static_cast<std::int64_t>(sizeof(numbers[0]));
    pieces.push_back(std::as_writable_bytes(numbers));
  }

  /// Of one piece.
  template <class Values>
  static LineNumbers of(Values& values, std::int64_t columns = 1) {
    LineNumbers lines;
    lines.add(values, columns);
    return lines;
  }
};

}  // namespace attn
