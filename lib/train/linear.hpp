#pragma once

#include <optional>
#include <string>

#include "train/parameters.hpp"
#include "train/slot.hpp"

namespace attn::train {

/// y_i = W x_i + b for each row x_i, with W (outputs, inputs). The caller keeps x.
class Linear {
 public:
  /// Adds NAME, and with `bias` NAME_bias, to the parameters.
  Linear(Parameters& parameters, const std::string& name, const std::string& bias, Index inputs,
         Index outputs, double deviation);

  template <class T>
  OwnedMatrix<T> forward(const Slot<T>& slot, MatrixView<const T> x) const;

  /// Writes the gradients of W and b from dy = ∂L/∂y, and adds W ᵀdy to dx.
  template <class T>
  void backward(const Slot<T>& slot, MatrixView<const T> x, MatrixView<const T> dy,
                MatrixView<T> dx) const;

  Index outputs() const { return weight_.rows; }

 private:
  MatrixPlace weight_;
  std::optional<Index> bias_;
};

/// row_i += bias, for each row.
template <class T>
void add_to_rows(MatrixView<T> rows, const T* bias);

/// sum_c = Σ_i rows_ic, added in the order of rows.
template <class T>
void sum_rows(MatrixView<const T> rows, T* sum);

}  // namespace attn::train
