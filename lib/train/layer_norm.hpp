#pragma once

#include <string>

#include "train/parameters.hpp"
#include "train/pass_bytes.hpp"
#include "train/slot.hpp"

namespace attn::train {

/// Layer normalisation of each row over its features, with gain and shift, ε = 1e-5.
class LayerNorm {
 public:
  /// Adds NAME_gain and NAME_shift.
  LayerNorm(Parameters& parameters, const std::string& name, Index width);

  /// The mean of each row and 1/√(variance + ε). The caller keeps x.
  template <class T>
  struct Kept {
    OwnedMatrix<T> mean;
    OwnedMatrix<T> inverse;
  };

  template <class T>
  OwnedMatrix<T> forward(const Slot<T>& slot, MatrixView<const T> x, Kept<T>& kept) const;

  /// Writes the gradients of gain and shift, and returns ∂L/∂x.
  template <class T>
  OwnedMatrix<T> backward(const Slot<T>& slot, MatrixView<const T> x, const Kept<T>& kept,
                          MatrixView<const T> dy) const;

  Index width() const { return width_; }

  /// The bytes for `rows` rows.
  template <class T>
  PassBytes bytes(Index rows) const {
    const std::int64_t all = row_bytes<T>(rows, width_);
    return {2 * row_bytes<T>(rows, 1), all, all};
  }

 private:
  Index width_;
  Index gain_;
  Index shift_;
};

}  // namespace attn::train
