#pragma once

#include <cstddef>
#include <vector>

#include "io/arrays/bytes.hpp"

namespace attn::io {

/// One axis of a block to be read: its strides in the file and in memory.
struct StridedAxis {
  Index count;      ///< >= 1
  Index file_step;  ///< bytes, > 0
  Index out_step;   ///< elements, > 0
};

/// Sets out[sum i_a out_step_a] to the element at `offset` + sum i_a file_step_a, for all 0 <= i_a
/// < count_a. `axes` are in the file's order, the fastest-varying one last, and each step is at
/// least the extent of the axes inside it. Elements that are less than a page apart are read
/// together, in blocks of 256 KiB, whatever the order of the axes in memory, rather than by one
/// call per element. Throws what Bytes::read throws.
void read_strided(const Bytes& bytes, Index offset, const std::vector<StridedAxis>& axes,
                  std::size_t element_size, void* out);

}  // namespace attn::io
