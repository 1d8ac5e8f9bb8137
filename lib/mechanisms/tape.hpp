#pragma once

#include "mechanisms/rows.hpp"

namespace attn::mechanisms {

/// Attention of one query after the other over a tape of earlier states: energies a_i = v·tanh(p_i
/// + u), weights s = softmax(a), means Σ s_i m_i. The projections p_i (A) and the memories m_i (M)
/// of the first n places of the tape are known; both grow from step to step.
template <class T>
class Tape {
 public:
  /// Room for `places`; requires v (1, A).
  Tape(MatrixView<const T> v, Index places, Index memory);

  /// The projection and memory of a place: numbers that the caller writes before it attends to it.
  void set(Index place, const T* projection, const T* memory);
  MatrixView<const T> memories() const { return memories_.read(); }

  /// The weights (n) and the mean (M) over the first n places, for the query u (A). With n = 0 the
  /// mean is 0. Throws Error(numerical) for an energy that is not finite.
  void attend(const T* u, Index n, T* weights, T* mean, int threads) const;

  /// The reverse: from dmean = ∂L/∂mean it adds to the gradients of the memories and projections of
  /// the first n places, and of v, and writes that of u. `weights` are those of attend, and become
  /// the gradients of the energies.
  void differentiate(const T* u, Index n, const T* dmean, T* weights, T* du, int threads);

  /// The gradients so far. Those of a place's projection: (A).
  MatrixView<T> memory_gradients() { return memory_gradients_.view(); }
  void projection_gradient(Index place, T* gradient) const;
  const double* v_gradient() const { return v_gradient_.data(); }

  static std::int64_t bytes(Index places, Index inner, Index memory, bool gradients);

 private:
  MatrixView<const T> v_;
  Matrix<T> projections_;  // (A, places): a place is a column
  Matrix<T> memories_;     // (places, M)
  Matrix<T> projection_gradients_, memory_gradients_;
  Matrix<double> v_gradient_;
};

}  // namespace attn::mechanisms
