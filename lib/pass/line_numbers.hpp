#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace attn {

/// The memory of a few numbers for each of some neighbouring lines, which are queries or keys, to
/// be written to a file and read again. It is one piece, or several that hold one line after the
/// other.
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
