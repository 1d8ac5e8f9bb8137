#include "gradient/folded_rows.hpp"

#include <cmath>

namespace attn {
namespace {

// With scores of at most 30 in magnitude, ρ lies between e^-30 / Lk and e^30, so that ρ dO stays
// well inside float32 for ordinary dO.
constexpr double least_magnitude = 1e-10;
constexpr double greatest_magnitude = 1e10;

}  // namespace

bool folds_rows(const SchemeOptions& options, bool near_zero, double largest_grad_out,
                double largest_value) {
  // A larger sink would take ρ out of that range.
  constexpr double largest_sink = 30;
  return is_softmax(options.scheme) && near_zero && options.sink <= largest_sink &&
         largest_grad_out >= least_magnitude && largest_grad_out <= greatest_magnitude &&
         largest_value <= greatest_magnitude;
}

template <class T>
void fold_rows(MatrixView<const T> grad_out, WeightAdjoint<T>& adjoint, Buffer<T>& folded) {
  folded = Buffer<T>(grad_out.rows * grad_out.cols);
  for (Index i = 0; i < grad_out.rows; ++i) {
    const auto at = static_cast<std::size_t>(i);
    const auto factor = static_cast<T>(std::exp(-adjoint.f[at]));
    for (Index c = 0; c < grad_out.cols; ++c) {
      folded[i * grad_out.cols + c] = factor * grad_out(i, c);
    }
    adjoint.row[at] *= factor;
  }
  adjoint.f.clear();
  adjoint.g.clear();
}

template void fold_rows(MatrixView<const float>, WeightAdjoint<float>&, Buffer<float>&);
template void fold_rows(MatrixView<const double>, WeightAdjoint<double>&, Buffer<double>&);

}  // namespace attn
