#include "mechanisms/gru.hpp"

#include <algorithm>

#include "kernel/activation.hpp"
#include "kernel/product.hpp"

namespace attn::mechanisms {
namespace {

// The candidate n's view of the state before: r⊙h.
template <class T>
void reset_state(const T* gates, const T* h, Index width, T* reset) {
  for (Index n = 0; n < width; ++n) reset[n] = gates[n] * h[n];
}

// gates += W h.
template <class T>
void add_product(const T* h, MatrixView<const T> w, T* gates) {
  OwnedMatrix<T> product(1, w.rows);
  kernel::multiply_transposed({h, 1, w.cols}, w, product.view());
  for (Index n = 0; n < w.rows; ++n) gates[n] += product.data()[n];
}

// The gradients of one step: with respect to the arguments of the gates' functions, replacing the
// gates; with respect to h, added to dh. `dnext` is ∂L/∂h′.
template <class T>
void differentiate_step(const GruWeights<T>& weights, T* gates, const T* h, const T* dnext, T* dh) {
  const Index width = weights.width();
  T* const r = gates;
  T* const z = r + width;
  T* const candidate = z + width;
  for (Index n = 0; n < width; ++n) {
    const T y = candidate[n];
    candidate[n] = dnext[n] * (1 - z[n]) * (1 - y * y);
    dh[n] += dnext[n] * z[n];
    z[n] = dnext[n] * (h[n] - y) * z[n] * (1 - z[n]);
  }
  OwnedMatrix<T> dreset = OwnedMatrix<T>::zeros(1, width);
  kernel::multiply_add({candidate, 1, width}, weights.of_candidate(), dreset.view());
  for (Index n = 0; n < width; ++n) {
    const T dr = dreset.data()[n];
    dh[n] += dr * r[n];
    r[n] = dr * h[n] * r[n] * (1 - r[n]);
  }
  kernel::multiply_add({gates, 1, 2 * width}, weights.of_gates(), {dh, 1, width});
}

}  // namespace

template <class T>
typename Gru<T>::Kept Gru<T>::forward(MatrixView<const T> x) const {
  const Index width = weights_.width();
  Kept kept{{x.rows, 3 * width}, {x.rows, width}};
  kernel::multiply_transposed(x, weights_.of_input(), kept.gates.view());
  const OwnedMatrix<T> zero = OwnedMatrix<T>::zeros(1, width);
  OwnedMatrix<T> reset(1, width);
  const T* h = zero.data();
  for (Index step = 0; step < x.rows; ++step) {
    const Index t = position(step, x.rows);
    T* const gates = kept.gates.view().row(t);
    T* const candidate = gates + 2 * width;
    if (weights_.b.data != nullptr) {
      for (Index n = 0; n < 3 * width; ++n) gates[n] += weights_.b.data[n];
    }
    add_product(h, weights_.of_gates(), gates);
    require_finite(gates, 2 * width);
    kernel::logistic_row(gates, 2 * width, gates);
    reset_state(gates, h, width, reset.data());
    add_product<T>(reset.data(), weights_.of_candidate(), candidate);
    require_finite(candidate, width);
    kernel::tanh_row(candidate, width, candidate);
    const T* const z = gates + width;
    T* const next = kept.h.view().row(t);
    for (Index n = 0; n < width; ++n) next[n] = z[n] * h[n] + (1 - z[n]) * candidate[n];
    h = next;
  }
  return kept;
}

template <class T>
void Gru<T>::backward(MatrixView<const T> x, Kept& kept, OwnedMatrix<T>& dh, MatrixView<T> dw,
                      MatrixView<T> db, MatrixView<T> dx) const {
  const Index width = weights_.width();
  OwnedMatrix<T> unused(1, width);  // ∂L/∂h of the state before the first step
  const OwnedMatrix<T> zero = OwnedMatrix<T>::zeros(1, width);
  // h, and r⊙h, before each step, by position.
  OwnedMatrix<T> previous = OwnedMatrix<T>::zeros(x.rows, width);
  OwnedMatrix<T> reset = OwnedMatrix<T>::zeros(x.rows, width);
  for (Index step = x.rows; step-- > 0;) {
    const Index t = position(step, x.rows);
    const Index before = position(step - 1, x.rows);
    const T* const h = step > 0 ? kept.h.view().row(before) : zero.data();
    T* const gates = kept.gates.view().row(t);
    std::copy_n(h, width, previous.view().row(t));
    reset_state(gates, h, width, reset.view().row(t));
    std::fill_n(unused.data(), width, T{0});
    differentiate_step<T>(weights_, gates, h, dh.view().row(t),
                          step > 0 ? dh.view().row(before) : unused.data());
  }
  const auto columns = [&](Index first, Index count) {
    return MatrixView<const T>{kept.gates.data() + first, x.rows, count, 3 * width};
  };
  if (dw.data != nullptr) {
    kernel::add_transposed_product(columns(0, 2 * width), previous.read(),
                                   {dw.data, 2 * width, width, dw.row_stride});
    kernel::add_transposed_product(columns(2 * width, width), reset.read(),
                                   {dw.row(2 * width), width, width, dw.row_stride});
    kernel::add_transposed_product(kept.gates.read(), x,
                                   {dw.data + width, dw.rows, dw.cols - width, dw.row_stride});
  }
  if (db.data != nullptr) {
    for (Index t = 0; t < x.rows; ++t) {
      for (Index n = 0; n < 3 * width; ++n) db.data[n] += kept.gates.read()(t, n);
    }
  }
  if (dx.data != nullptr) kernel::multiply_add(kept.gates.read(), weights_.of_input(), dx);
}

template class Gru<float>;
template class Gru<double>;

}  // namespace attn::mechanisms
