#pragma once

#include <cstdint>

#include "mechanisms/rows.hpp"

namespace attn::mechanisms {

/// The tensors of a HighwayMaxout: its weights, or their gradients.
template <class Element>
struct HighwayMaxoutTensors {
  MatrixView<Element> w, w1, b1, w2, b2, w3, b3;
};

/// A highway maxout network (Xiong et al., arXiv:1611.01604): a score of each row u_t (2L) of a
/// matrix, given a state z (5L). Each layer is the maximum over P pieces:
///
///   r = tanh(W z),  m₁ = max_p(W₁ [u_t; r] + b₁),  m₂ = max_p(W₂ m₁ + b₂),
///   score_t = max_p(W₃ [m₁; m₂] + b₃)
///
/// W₁ (PL, 3L) and W₂ (PL, L) have the L rows of each piece together. Biases without data are 0.
template <class T>
class HighwayMaxout {
 public:
  /// Throws Error(input) if P = 0.
  explicit HighwayMaxout(const HighwayMaxoutTensors<const T>& weights);

  /// Throws Error(numerical) for a number beyond the range of T.
  void scores(MatrixView<const T> u, MatrixView<const T> state, T* scores) const;

  /// From dscores = ∂L/∂scores, adds to the gradients that have data, to du if it has data, and to
  /// dstate. A maximum passes its gradient to the first of the largest pieces.
  void differentiate(MatrixView<const T> u, MatrixView<const T> state, const T* dscores,
                     const HighwayMaxoutTensors<T>& gradients, MatrixView<T> du,
                     MatrixView<T> dstate) const;

  static std::int64_t bytes(Index positions, Index width, Index pieces, bool gradients);

 private:
  struct Panel;
  Index width() const { return weights_.w.rows; }
  Index pieces() const { return weights_.w3.rows; }
  OwnedMatrix<T> reduced(MatrixView<const T> state) const;
  OwnedMatrix<T> of_state(const OwnedMatrix<T>& r) const;
  Panel panel(MatrixView<const T> u, const OwnedMatrix<T>& common) const;

  HighwayMaxoutTensors<const T> weights_;
};

}  // namespace attn::mechanisms
