#pragma once

#include <functional>

#include "tensor/shape.hpp"

namespace attn::io {

/// A hyperslab that is to be read by HDF5: along each axis elements first, first + step, ... of a
/// dataset whose chunks are as long as `chunk` has it (no axes: it has none).
struct Parts {
  Shape first;
  Shape step;
  Shape chunk;
  Index element_size = 1;
};

/// A block of the hyperslab, counted in its own elements.
struct Part {
  Shape start;
  Shape count;
};

/// Cuts the hyperslab, which has `count` elements along its axes, into parts of at most 64 MiB
/// each, and calls `visit` with one after the other. Where there are chunks it is cut between them
/// only, so that none is unpacked twice: a part may be as large as one chunk. Most often the whole
/// is one part.
void for_each_part(const Parts& parts, const Shape& count,
                   const std::function<void(const Part&)>& visit);

}  // namespace attn::io
