#pragma once

#include <cblas.h>

#include <limits>
#include <stdexcept>
#include <string>

#include "tensor/shape.hpp"

/// Helpers for the files that call BLAS and LAPACK.
namespace attn::kernel {

/// To be held during every call of BLAS or LAPACK. OpenBLAS then uses the calling thread alone;
/// otherwise it would split a large product, and with it the sums, over its own threads. If memory
/// is limited, the constructor throws Error(memory) unless there is room for one OpenBLAS buffer
/// per thread.
class BlasCall {
 public:
  BlasCall();
  ~BlasCall();
  BlasCall(const BlasCall&) = delete;
  BlasCall& operator=(const BlasCall&) = delete;

 private:
  int threads_before_;
};

/// For a program that uses OpenBLAS itself. The pthread build of OpenBLAS has one number of threads
/// for the whole process, which the library sets to 1. When the last BorrowedBlas ends, OpenBLAS
/// has the program's number again. Until then, the program's own products take one thread, too.
class BorrowedBlas {
 public:
  BorrowedBlas();
  ~BorrowedBlas();
  BorrowedBlas(const BorrowedBlas&) = delete;
  BorrowedBlas& operator=(const BorrowedBlas&) = delete;
};

inline blasint blas_extent(Index extent) {
  if (extent > std::numeric_limits<blasint>::max()) {
    throw std::length_error("tile extent beyond BLAS' integer");
  }
  return static_cast<blasint>(extent);
}

/// BLAS requires a leading dimension of at least 1 and at least the row length.
inline blasint leading_dimension(Index stride) { return blas_extent(stride > 0 ? stride : 1); }

/// Name and build of the BLAS: "OpenBLAS 0.3.21 ... openmp".
std::string blas_description();

}  // namespace attn::kernel
