#pragma once

#include "kernel/product.hpp"
#include "score/energy.hpp"
#include "score/panel_product.hpp"
#include "tensor/buffer.hpp"

namespace attn {

/// The arguments of tanh in the mlp energy, as two halves that each pair adds: W1q q + b1 (Lq, A)
/// and W1k k (A, Lk), with keys along the rows so that a vector holds neighbouring keys.
template <class T>
class MlpArguments {
 public:
  MlpArguments(Index queries, Index keys, Index hidden)
      : q_storage_(queries * hidden),
        k_storage_(keys * hidden),
        q_(q_storage_.data(), queries, hidden),
        k_(k_storage_.data(), hidden, keys) {}

  MatrixView<T> q() const { return q_; }
  MatrixView<T> k() const { return k_; }

 private:
  Buffer<T> q_storage_;
  Buffer<T> k_storage_;
  MatrixView<T> q_;
  MatrixView<T> k_;
};

/// Computed on up to `threads` threads by a partition fixed by the shape.
template <class T>
MlpArguments<T> mlp_arguments(MatrixView<const T> q, MatrixView<const T> k,
                              const MlpWeights<T>& weights, int threads) {
  const Index hidden = weights.w1.rows;
  const Index stride = weights.w1.row_stride;
  MlpArguments<T> arguments(q.rows, k.rows, hidden);
  const MatrixView<const T> for_q(weights.w1.data, hidden, q.cols, stride);
  const MatrixView<const T> for_k(weights.w1.data + q.cols, hidden, k.cols, stride);
  multiply_transposed_by_panels<T>(q, for_q, arguments.q(), threads);
  for (Index i = 0; !weights.bias.empty() && i < q.rows; ++i) {
    for (Index a = 0; a < hidden; ++a) {
      arguments.q()(i, a) += weights.bias[static_cast<std::size_t>(a)];
    }
  }
  const MatrixView<T> keys = arguments.k();
  for_panels(k.rows, threads, [&](Index first, Index count) {
    kernel::multiply_transposed(for_k, k.row_range(first, count),
                                MatrixView<T>(keys.data + first, hidden, count, keys.row_stride));
  });
  return arguments;
}

}  // namespace attn
