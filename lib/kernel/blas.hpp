#pragma once

#include <cblas.h>

#include <limits>
#include <stdexcept>

#include "tensor/shape.hpp"

/// Helpers for the files that call BLAS and LAPACK.
namespace attn::kernel {

/// Must be called before every call of BLAS or LAPACK. Holds OpenBLAS to one thread, because it
/// would split a large product, and with it the sums, over its own threads. If memory is limited,
/// throws Error(memory) unless there is room for one OpenBLAS buffer per thread.
void prepare_blas();

inline blasint blas_extent(Index extent) {
  if (extent > std::numeric_limits<blasint>::max()) {
    throw std::length_error("tile extent beyond BLAS' integer");
  }
  return static_cast<blasint>(extent);
}

/// BLAS requires a leading dimension of at least 1 and at least the row length.
inline blasint leading_dimension(Index stride) { return blas_extent(stride > 0 ? stride : 1); }

}  // namespace attn::kernel
