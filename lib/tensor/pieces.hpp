#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <string>

#include "tensor/shape.hpp"

namespace attn {

/// The number of elements of `element_size` bytes in a piece of data that passes through a buffer.
/// A piece has 1 MiB, which bounds the memory and stays in a core's cache between its two uses.
constexpr Index piece_elements(std::size_t element_size) {
  const std::size_t bytes = std::size_t{1} << 20;
  return static_cast<Index>(element_size < bytes ? bytes / std::max<std::size_t>(element_size, 1)
                                                 : 1);
}

/// Part of a block: `count` elements along each axis, from position `start` of the block. In
/// row-major order these are the block's elements [offset, offset + size).
struct Piece {
  Shape start;
  Shape count;
  Index offset = 0;
  Index size = 0;
};

/// Cuts a block into pieces of at most `limit` elements and visits them in row-major order. A block
/// without elements has no pieces. Requires limit >= 1.
void for_each_piece(const Shape& count, Index limit,
                    const std::function<void(const Piece&)>& visit);

/// Throws std::invalid_argument naming `what` if the block does not lie within `shape`. Not an
/// Error, because the mistake is in the calling code.
void require_block(const Shape& start, const Shape& count, const Shape& shape,
                   const std::string& what);

}  // namespace attn
