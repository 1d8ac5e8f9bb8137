#include "train/linear.hpp"

#include <algorithm>

#include "kernel/product.hpp"

namespace attn::train {

Linear::Linear(Parameters& parameters, const std::string& name, const std::string& bias,
               Index inputs, Index outputs, double deviation)
    : weight_(parameters.add_matrix(name, outputs, inputs, deviation)) {
  if (!bias.empty()) bias_ = parameters.add_vector(bias, outputs, 0);
}

template <class T>
OwnedMatrix<T> Linear::forward(const Slot<T>& slot, MatrixView<const T> x) const {
  OwnedMatrix<T> y(x.rows, weight_.rows);
  kernel::multiply_transposed(x, weight_.in(slot.weights), y.view());
  if (bias_) add_to_rows(y.view(), slot.weights + *bias_);
  return y;
}

template <class T>
void Linear::backward(const Slot<T>& slot, MatrixView<const T> x, MatrixView<const T> dy,
                      MatrixView<T> dx) const {
  kernel::transposed_product(dy, x, weight_.in(slot.gradients));
  if (bias_) sum_rows(dy, slot.gradients + *bias_);
  kernel::multiply_add(dy, weight_.in(slot.weights), dx);
}

template <class T>
void add_to_rows(MatrixView<T> rows, const T* bias) {
  for (Index i = 0; i < rows.rows; ++i) add_row(rows.row(i), bias, rows.cols);
}

template <class T>
void sum_rows(MatrixView<const T> rows, T* sum) {
  std::fill_n(sum, rows.cols, T{0});
  for (Index i = 0; i < rows.rows; ++i) add_row(sum, rows.row(i), rows.cols);
}

#define ATTN_LINEAR(T)                                                                     \
  template OwnedMatrix<T> Linear::forward(const Slot<T>&, MatrixView<const T>) const;      \
  template void Linear::backward(const Slot<T>&, MatrixView<const T>, MatrixView<const T>, \
                                 MatrixView<T>) const;                                     \
  template void add_to_rows(MatrixView<T>, const T*);                                      \
  template void sum_rows(MatrixView<const T>, T*);
ATTN_LINEAR(float)
ATTN_LINEAR(double)
#undef ATTN_LINEAR

}  // namespace attn::train
