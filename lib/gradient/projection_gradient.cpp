#include "gradient/projection_gradient.hpp"

#include <algorithm>

#include "kernel/product.hpp"
#include "score/panel_product.hpp"

namespace attn {

template <class T>
void differentiate_projection(MatrixView<const T> x, MatrixView<const T> w,
                              MatrixView<const T> grad_out, const ProjectionTargets<T>& targets,
                              int threads) {
  if (targets.input.data != nullptr) {
    add_product_transposed_by_panels<T>(grad_out, w, targets.input, threads);
  }
  if (targets.weights.data != nullptr) {
    const MatrixView<T>& weights = targets.weights;
    for (Index i = 0; i < weights.rows; ++i) std::fill_n(weights.row(i), weights.cols, T{0});
    kernel::add_transposed_product(x, grad_out, weights);
  }
  if (targets.bias.data == nullptr) return;
  for (Index c = 0; c < grad_out.cols; ++c) {
    double sum = 0;
    for (Index i = 0; i < grad_out.rows; ++i) sum += static_cast<double>(grad_out(i, c));
    targets.bias(0, c) = static_cast<T>(sum);
  }
}

#define ATTN_FOR_TYPE(T)                                                           \
  template void differentiate_projection(MatrixView<const T>, MatrixView<const T>, \
                                         MatrixView<const T>, const ProjectionTargets<T>&, int);
ATTN_FOR_TYPE(float)
ATTN_FOR_TYPE(double)
#undef ATTN_FOR_TYPE

}  // namespace attn
