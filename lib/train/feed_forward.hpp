#pragma once

#include <string>

#include "train/linear.hpp"
#include "train/pass_bytes.hpp"

namespace attn::train {

enum class Activation { relu, gelu };

/// y = W₂ activation(W₁ x + b₁) + b₂ for each row, W₁ (inner, width), W₂ (width, inner).
class FeedForward {
 public:
  /// Adds PREFIXw1, b1, w2 and b2. `deviation` is for W₁, `out_deviation` for W₂.
  FeedForward(Parameters& parameters, const std::string& prefix, Index width, Index inner,
              Activation activation, double deviation, double out_deviation);

  template <class T>
  struct Kept {
    OwnedMatrix<T> before;  ///< W₁ x + b₁; only for GELU
    OwnedMatrix<T> inner;   ///< activation(W₁ x + b₁)
  };

  template <class T>
  OwnedMatrix<T> forward(const Slot<T>& slot, MatrixView<const T> x, Kept<T>& kept) const;

  /// Writes the gradients of the layer's tensors and adds ∂L/∂x to dx.
  template <class T>
  void backward(const Slot<T>& slot, MatrixView<const T> x, const Kept<T>& kept,
                MatrixView<const T> dy, MatrixView<T> dx) const;

  /// The bytes for `rows` rows.
  template <class T>
  PassBytes bytes(Index rows) const {
    const std::int64_t inner = row_bytes<T>(rows, in_.outputs());
    const bool keeps_before = activation_ == Activation::gelu;
    return {keeps_before ? 2 * inner : inner, row_bytes<T>(rows, out_.outputs()), inner};
  }

 private:
  Linear in_;
  Linear out_;
  Activation activation_;
};

}  // namespace attn::train
