#pragma once

#include <cstddef>
#include <vector>

#include "io/arrays/bytes.hpp"

namespace attn::io {

/// One axis of a block to be read: how far its elements lie apart in the file and in memory.
struct StridedAxis {
  Index count;      ///< >= 1
  Index file_step;  ///< bytes, > 0
  Index out_step;   ///< elements, > 0
};

/// out[sum i_a out_step_a] = the element at `offset` + sum i_a file_step_a, for all 0 <= i_a <
/// count_a. `axes` stand in the order in which the file has them, the one whose elements are
/// neighbours last, and a step is no less than all that lies within it. Elements that are less than
/// a page apart are read together, in stretches of 256 KiB, whatever the order of the axes in
/// memory: never by a call for each. Throws what Bytes::read does.
void read_strided(const Bytes& bytes, Index offset, const std::vector<StridedAxis>& axes,
                  std::size_t element_size, void* out);

}  // namespace attn::io
