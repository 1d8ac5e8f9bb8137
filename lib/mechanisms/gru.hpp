#pragma once

#include "mechanisms/rows.hpp"
#include "tensor/view.hpp"

namespace attn::mechanisms {

/// The weights of a gated recurrent unit of width D for inputs of E numbers (Cho et al.,
/// arXiv:1406.1078):
///
///   [r; z] = σ(W_rz [h; x] + b_rz),  n = tanh(W_n [r⊙h; x] + b_n),  h′ = z⊙h + (1 − z)⊙n
template <class T>
struct GruWeights {
  MatrixView<const T> w;  ///< W (3D, D + E): rows r, z, n; columns h, then x
  MatrixView<const T> b;  ///< (1, 3D); without data: 0

  Index width() const { return w.rows / 3; }
  /// The columns for h, of the gates r and z, and of n.
  MatrixView<const T> of_gates() const { return {w.data, 2 * width(), width(), w.row_stride}; }
  MatrixView<const T> of_candidate() const {
    return {w.row(2 * width()), width(), width(), w.row_stride};
  }
  MatrixView<const T> of_input() const {
    return {w.data + width(), w.rows, w.cols - width(), w.row_stride};
  }
};

/// A sequence from h = 0: states of all steps.
template <class T>
class Gru {
 public:
  /// With `backwards`, step t reads the position T − 1 − t, and the states are stored by position.
  Gru(const GruWeights<T>& weights, bool backwards) : weights_(weights), backwards_(backwards) {}

  struct Kept {
    OwnedMatrix<T> gates;  // by position, (T, 3D): r, z, n
    OwnedMatrix<T> h;      // (T, D)
  };

  /// Throws Error(numerical) for a number beyond the range of T.
  Kept forward(MatrixView<const T> x) const;

  /// From ∂L/∂h by position, adds the gradients of W and b to those that have data, and the
  /// gradient of x to dx. Changes kept.gates and dh.
  void backward(MatrixView<const T> x, Kept& kept, OwnedMatrix<T>& dh, MatrixView<T> dw,
                MatrixView<T> db, MatrixView<T> dx) const;

 private:
  Index position(Index step, Index steps) const { return backwards_ ? steps - 1 - step : step; }

  GruWeights<T> weights_;
  bool backwards_;
};

}  // namespace attn::mechanisms
