#pragma once

#include <functional>

#include "tensor/shape.hpp"

namespace attn::io {

/// A hyperslab to be read by HDF5: along each axis elements first, first + step, ... of a dataset
/// with chunks of shape `chunk` (no axes: it is not chunked).
struct Parts {
  Shape first;
  Shape step;
  Shape chunk;
  Index element_size = 1;
};

/// A block of the hyperslab, in the hyperslab's own coordinates.
struct Part {
  Shape start;
  Shape count;
};

/// Cuts the hyperslab, which has `count` elements along its axes, into parts of at most 64 MiB and
/// calls `visit` for each in order. A chunked dataset is cut only between chunks, so that no chunk
/// is unpacked twice; a part may therefore be as large as one chunk. Usually the hyperslab is a
/// single part.
void for_each_part(const Parts& parts, const Shape& count,
                   const std::function<void(const Part&)>& visit);

}  // namespace attn::io
