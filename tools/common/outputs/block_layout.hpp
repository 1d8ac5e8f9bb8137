#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "tensor/shape.hpp"

namespace attn::tools {

/// A dataset that is written block by block, one for each position along some of its axes: a result
/// by head, (…, Lq, dv), or the gradient of a dataset that heads share.
struct BlockLayout {
  std::string name;                      ///< in its group
  Shape shape;                           ///< of the whole dataset
  std::vector<std::size_t> axes = {};    ///< along which the blocks lie, ascending
  std::vector<std::string> labels = {};  ///< of all axes; may be shorter than `shape`
  Shape chunk = {};                      ///< of the whole dataset; empty: contiguous
  /// Blocks of the parts of a run may end early along their own axes; the rest is NaN.
  bool padded = false;

  /// A block's own axes, ascending: all axes except those along which the blocks lie.
  std::vector<std::size_t> own_axes() const;

  /// Lengths of the axes of the blocks' positions, and of a block's own axes.
  Shape positions() const;
  Shape own() const;

  bool operator==(const BlockLayout&) const = default;
};

/// Where a block lies in the whole dataset.
struct BlockBox {
  Shape start;
  Shape count;
};

/// The block at row-major position `block` along the axes of the positions.
BlockBox box_of(const BlockLayout& layout, Index block);

/// The axes 0, 1, ..., count - 1.
std::vector<std::size_t> first_axes(std::size_t count);

/// Ascending numbers as ranges: "0:3,7:9" for 0, 1, 2, 7, 8. Empty text for none.
std::string ranges_text(const std::vector<Index>& numbers);

/// The number of numbers in such a text; a short text can name more than fit into memory. Throws
/// Error(input) for any other text, and for numbers of `limit` and more.
Index count_in_ranges(const std::string& text, Index limit);

/// The inverse of ranges_text, for a text that count_in_ranges accepts.
std::vector<Index> parse_ranges(const std::string& text, Index limit);

}  // namespace attn::tools
