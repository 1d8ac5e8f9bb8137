#pragma once

#include "mechanisms/rows.hpp"
#include "tensor/view.hpp"

namespace attn::mechanisms {

/// The weights of a long short-term memory of width D for inputs of E numbers (Hochreiter and
/// Schmidhuber 1997, with a forget gate):
///
///   [i; f; o; ĉ] = [σ; σ; σ; tanh](W [h; x] + b),  c′ = f⊙c + i⊙ĉ,  h′ = o⊙tanh c′
template <class T>
struct LstmWeights {
  MatrixView<const T> w;  ///< W (4D, D + E): rows i, f, o, ĉ; columns h, then x
  MatrixView<const T> b;  ///< (1, 4D); without data: 0

  Index width() const { return w.rows / 4; }
  MatrixView<const T> of_state() const { return {w.data, w.rows, width(), w.row_stride}; }
  MatrixView<const T> of_input() const {
    return {w.data + width(), w.rows, w.cols - width(), w.row_stride};
  }
};

/// W_x x_t + b for each row x_t: (rows, 4D).
template <class T>
OwnedMatrix<T> lstm_inputs(const LstmWeights<T>& weights, MatrixView<const T> x);

/// Gates of one step: `gates` (4D) holds W_x x + b; adds W_h h and turns them into [i; f; o; ĉ].
/// Throws Error(numerical) for a number beyond the range of T.
template <class T>
void lstm_gates(const LstmWeights<T>& weights, const T* h, T* gates);

/// c′ and h′ of a step, from its gates; `more` (D) is added to c′ unless it is null.
template <class T>
void lstm_state(const T* gates, const T* c, const T* more, Index width, T* next_c, T* next_h);

/// The reverse of lstm_state and of the gates' functions. From ∂L/∂h′ and ∂L/∂c′, computes the
/// gradients with respect to W[h; x] + b, which replace the gates; c, written to dc; and `more`, in
/// dnext_c, which becomes the whole gradient of c′.
template <class T>
void lstm_gradient(T* gates, const T* c, const T* next_c, const T* dh, Index width, T* dnext_c,
                   T* dc);

/// From this many steps on, a transposed copy of W_h, 4D² numbers, pays in Lstm::forward.
inline constexpr Index lstm_steps_to_copy = 512;

/// A sequence from h = c = 0: states of all steps.
template <class T>
class Lstm {
 public:
  /// With `backwards`, step t reads the position T − 1 − t, and the states are stored by position.
  Lstm(const LstmWeights<T>& weights, bool backwards) : weights_(weights), backwards_(backwards) {}

  struct Kept {
    OwnedMatrix<T> gates;  // by position, (T, 4D)
    OwnedMatrix<T> c, h;   // (T, D)
  };

  Kept forward(MatrixView<const T> x) const;

  /// From ∂L/∂h by position, adds the gradients of W and b to those that have data, and the
  /// gradient of x to dx. Changes kept.gates and dh.
  void backward(MatrixView<const T> x, Kept& kept, OwnedMatrix<T>& dh, MatrixView<T> dw,
                MatrixView<T> db, MatrixView<T> dx) const;

 private:
  Index position(Index step, Index steps) const { return backwards_ ? steps - 1 - step : step; }

  LstmWeights<T> weights_;
  bool backwards_;
};

}  // namespace attn::mechanisms
