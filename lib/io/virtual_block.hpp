#pragma once

#include <string>

#include "tensor/shape.hpp"

namespace attn::io {

/// A block of a virtual dataset, whose elements are a block of a dataset in another file. Both
/// blocks have the same number of elements, in row-major order.
struct VirtualBlock {
  std::string file;  ///< relative to the folder of the virtual dataset's file
  std::string path;  ///< of the dataset in it
  Shape shape;       ///< of that dataset
  Shape from_start;  ///< the block of that dataset
  Shape from_count;
  Shape start;  ///< the block of the virtual dataset
  Shape count;
};

}  // namespace attn::io
