#pragma once

#include <cblas.h>

#include <limits>
#include <stdexcept>

#include "tensor/shape.hpp"

/// For the files that call BLAS and LAPACK.
namespace attn::kernel {

/// To be called before every call of BLAS or LAPACK. OpenBLAS would split a large enough product
/// over its own threads, and with it the sums: it is held to one. Where memory is limited, throws
/// Error(memory) unless there is enough for as many buffers of OpenBLAS as there are threads.
void prepare_blas();

inline blasint blas_extent(Index extent) {
  if (extent > std::numeric_limits<blasint>::max()) {
    throw std::length_error("tile extent beyond BLAS' integer");
  }
  return static_cast<blasint>(extent);
}

/// BLAS insists on a leading dimension of at least 1 and of at least the row length.
inline blasint leading_dimension(Index stride) { return blas_extent(stride > 0 ? stride : 1); }

}  // namespace attn::kernel
