#pragma once

#include <Eigen/Core>
#include <type_traits>

#include "tensor/view.hpp"

namespace attn::kernel {

template <class T>
using RowMajor = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

/// The numbers of a view as a matrix of Eigen, for algebra that takes little of the time. Eigen
/// uses only instructions that every CPU has, on the calling thread: the bits are the same on all
/// CPUs, but the vector operations of conjugate.hpp and products by BLAS are faster. Eigen adds up
/// the elements of a matrix in an order that depends on where they lie in memory: take dot() or
/// squaredNorm() in place of sum().
template <class T>
auto eigen_map(MatrixView<T> view) {
  using Plain = RowMajor<std::remove_const_t<T>>;
  using Matrix = std::conditional_t<std::is_const_v<T>, const Plain, Plain>;
  return Eigen::Map<Matrix, Eigen::Unaligned, Eigen::OuterStride<>>(
      view.data, view.rows, view.cols, Eigen::OuterStride<>(view.row_stride));
}

}  // namespace attn::kernel
