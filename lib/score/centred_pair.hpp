#pragma once

#include "tensor/buffer.hpp"
#include "tensor/pooled_vector.hpp"
#include "tensor/view.hpp"

namespace attn {

/// sum += the rows of the matrix.
template <class T>
void add_rows(MatrixView<const T> rows, PooledVector<double>& sum) {
  for (Index i = 0; i < rows.rows; ++i) {
    for (Index c = 0; c < rows.cols; ++c) {
      sum[static_cast<std::size_t>(c)] += static_cast<double>(rows(i, c));
    }
  }
}

/// The rows minus `mean`, rounded once, in `storage`, which has room for them.
template <class T>
MatrixView<const T> centred(MatrixView<const T> rows, const PooledVector<double>& mean,
                            Buffer<T>& storage) {
  MatrixView<T> result(storage.data(), rows.rows, rows.cols);
  for (Index i = 0; i < rows.rows; ++i) {
    for (Index c = 0; c < rows.cols; ++c) {
      result(i, c) =
          static_cast<T>(static_cast<double>(rows(i, c)) - mean[static_cast<std::size_t>(c)]);
    }
  }
  return result;
}

/// Copies of q (Lq, d) and k (Lk, d) minus their common mean, computed in float64. At an offset of
/// 100 from the origin, the gaussian energy of raw vectors would lose three to four digits.
template <class T>
class CentredPair {
 public:
  CentredPair(MatrixView<const T> q, MatrixView<const T> k)
      : q_storage_(q.rows * q.cols), k_storage_(k.rows * k.cols) {
    PooledVector<double> mean(static_cast<std::size_t>(q.cols), 0.0);
    add_rows(q, mean);
    add_rows(k, mean);
    for (double& m : mean) m /= static_cast<double>(q.rows + k.rows);
    q_ = centred(q, mean, q_storage_);
    k_ = centred(k, mean, k_storage_);
  }

  MatrixView<const T> q() const { return q_; }
  MatrixView<const T> k() const { return k_; }

 private:
  Buffer<T> q_storage_;
  Buffer<T> k_storage_;
  MatrixView<const T> q_;
  MatrixView<const T> k_;
};

}  // namespace attn
