#include "gradient/folded_rows.hpp"

#include <cmath>

#include "kernel/few_rows.hpp"

namespace attn {
namespace {

// With scores of at most 30 in magnitude, ρ lies between e^-30 / Lk and e^30, which leaves a dO of
// ordinary size far from both ends of float32.
constexpr double least_magnitude = 1e-10;
constexpr double greatest_magnitude = 1e10;

}  // namespace

template <class T>
bool fold_rows(const Forward<T>& forward, WeightAdjoint<T>& adjoint, Buffer<T>& grad_out) {
  // A larger sink would take ρ out of that range.
  constexpr double largest_sink = 30;
  if (!is_softmax(forward.options.scheme) || !forward.scores->near_zero() ||
      is_small(*forward.scores) || forward.options.sink > largest_sink) {
    return false;
  }
  const MatrixView<const T> given = forward.grad_out;
  const auto magnitude = static_cast<double>(kernel::largest_magnitude(given));
  if (!(magnitude >= least_magnitude && magnitude <= greatest_magnitude)) return false;
  if (!(static_cast<double>(kernel::largest_magnitude(forward.v)) <= greatest_magnitude)) {
    return false;
  }
  grad_out = Buffer<T>(given.rows * given.cols);
  for (Index i = 0; i < given.rows; ++i) {
    const auto at = static_cast<std::size_t>(i);
    const auto factor = static_cast<T>(std::exp(-adjoint.f[at]));
    for (Index c = 0; c < given.cols; ++c) grad_out[i * given.cols + c] = factor * given(i, c);
    adjoint.row[at] *= factor;
  }
  adjoint.f.clear();
  adjoint.g.clear();
  return true;
}

template bool fold_rows(const Forward<float>&, WeightAdjoint<float>&, Buffer<float>&);
template bool fold_rows(const Forward<double>&, WeightAdjoint<double>&, Buffer<double>&);

}  // namespace attn
