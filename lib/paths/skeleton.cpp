#include "paths/skeleton.hpp"

#include <cmath>

#include "tensor/pooled_vector.hpp"

namespace attn {
namespace {

template <class T>
std::vector<Index> largest_rows(MatrixView<const T> w) {
  std::vector<Index> rows(static_cast<std::size_t>(w.cols), 0);
  // Row by row, the order in memory.
  PooledVector<T> largest(rows.size(), T{-1});
  for (Index i = 0; i < w.rows; ++i) {
    const T* const row = w.row(i);
    for (std::size_t c = 0; c < rows.size(); ++c) {
      const T size = std::abs(row[c]);
      if (size > largest[c]) {
        largest[c] = size;
        rows[c] = i;
      }
    }
  }
  return rows;
}

}  // namespace

Skeleton cyclic_skeleton(Index rows, Index first, Index columns) {
  Skeleton skeleton;
  for (Index c = 0; c < columns; ++c) skeleton.q.push_back((first + c) % rows);
  skeleton.k = skeleton.q;
  return skeleton;
}

template <class T>
Skeleton largest_skeleton(MatrixView<const T> wq, MatrixView<const T> wk) {
  return {largest_rows(wq), largest_rows(wk)};
}

template <class T>
void set_skeleton_to_one(MatrixView<T> wq, MatrixView<T> wk, const Skeleton& skeleton) {
  for (Index c = 0; c < skeleton.columns(); ++c) {
    wq(skeleton.q_of(c), c) = 1;
    wk(skeleton.k_of(c), c) = 1;
  }
}

template <class T>
std::optional<ZeroWeight> zero_in_skeleton(MatrixView<const T> wq, MatrixView<const T> wk,
                                           const Skeleton& skeleton) {
  for (Index c = 0; c < skeleton.columns(); ++c) {
    if (wq(skeleton.q_of(c), c) == 0) return ZeroWeight{true, skeleton.q_of(c), c};
    if (wk(skeleton.k_of(c), c) == 0) return ZeroWeight{false, skeleton.k_of(c), c};
  }
  return std::nullopt;
}

template Skeleton largest_skeleton(MatrixView<const float>, MatrixView<const float>);
template Skeleton largest_skeleton(MatrixView<const double>, MatrixView<const double>);
template void set_skeleton_to_one(MatrixView<float>, MatrixView<float>, const Skeleton&);
template void set_skeleton_to_one(MatrixView<double>, MatrixView<double>, const Skeleton&);
template std::optional<ZeroWeight> zero_in_skeleton(MatrixView<const float>,
                                                    MatrixView<const float>, const Skeleton&);
template std::optional<ZeroWeight> zero_in_skeleton(MatrixView<const double>,
                                                    MatrixView<const double>, const Skeleton&);

}  // namespace attn
