#include "mechanisms/lstm.hpp"

#include <algorithm>

#include "kernel/activation.hpp"
#include "kernel/product.hpp"

namespace attn::mechanisms {

template <class T>
OwnedMatrix<T> lstm_inputs(const LstmWeights<T>& weights, MatrixView<const T> x) {
  OwnedMatrix<T> gates(x.rows, weights.w.rows);
  kernel::multiply_transposed(x, weights.of_input(), gates.view());
  if (weights.b.data == nullptr) return gates;
  for (Index t = 0; t < x.rows; ++t) {
    T* const row = gates.view().row(t);
    for (Index n = 0; n < gates.cols(); ++n) row[n] += weights.b.data[n];
  }
  return gates;
}

namespace {

// The functions of the gates.
template <class T>
void activate(T* gates, Index width) {
  require_finite(gates, 4 * width);
  kernel::logistic_row(gates, 3 * width, gates);
  kernel::tanh_row(gates + 3 * width, width, gates + 3 * width);
}

template <class T>
OwnedMatrix<T> transposed(MatrixView<const T> from) {
  OwnedMatrix<T> made(from.cols, from.rows);
  for (Index r = 0; r < from.rows; ++r) {
    for (Index c = 0; c < from.cols; ++c) made.view()(c, r) = from(r, c);
  }
  return made;
}

}  // namespace

template <class T>
void lstm_gates(const LstmWeights<T>& weights, const T* h, T* gates) {
  const Index width = weights.width();
  OwnedMatrix<T> of_state(1, 4 * width);
  kernel::multiply_transposed({h, 1, width}, weights.of_state(), of_state.view());
  for (Index n = 0; n < 4 * width; ++n) gates[n] += of_state.data()[n];
  activate(gates, width);
}

template <class T>
void lstm_state(const T* gates, const T* c, const T* more, Index width, T* next_c, T* next_h) {
  const T* const i = gates;
  const T* const f = i + width;
  const T* const o = f + width;
  const T* const candidate = o + width;
  for (Index n = 0; n < width; ++n) {
    next_c[n] = f[n] * c[n] + i[n] * candidate[n] + (more != nullptr ? more[n] : T{0});
  }
  kernel::tanh_row(next_c, width, next_h);
  for (Index n = 0; n < width; ++n) next_h[n] *= o[n];
}

template <class T>
void lstm_gradient(T* gates, const T* c, const T* next_c, const T* dh, Index width, T* dnext_c,
                   T* dc) {
  T* const i = gates;
  T* const f = i + width;
  T* const o = f + width;
  T* const candidate = o + width;
  OwnedMatrix<T> tanh_c(1, width);
  kernel::tanh_row(next_c, width, tanh_c.data());
  for (Index n = 0; n < width; ++n) {
    const T y = tanh_c.data()[n];
    const T g = dnext_c[n] + dh[n] * o[n] * (1 - y * y);
    dnext_c[n] = g;
    dc[n] = g * f[n];
    const T di = g * candidate[n];
    candidate[n] = g * i[n] * (1 - candidate[n] * candidate[n]);
    i[n] = di * i[n] * (1 - i[n]);
    f[n] = g * c[n] * f[n] * (1 - f[n]);
    o[n] = dh[n] * y * o[n] * (1 - o[n]);
  }
}

template <class T>
typename Lstm<T>::Kept Lstm<T>::forward(MatrixView<const T> x) const {
  const Index width = weights_.width();
  // Products with the copy need no sums over lanes.
  const bool copies = x.rows >= lstm_steps_to_copy;
  const OwnedMatrix<T> of_state = copies ? transposed(weights_.of_state()) : OwnedMatrix<T>();
  Kept kept{lstm_inputs(weights_, x), {x.rows, width}, {x.rows, width}};
  const OwnedMatrix<T> zero = OwnedMatrix<T>::zeros(1, width);
  const T* h = zero.data();
  const T* c = zero.data();
  for (Index step = 0; step < x.rows; ++step) {
    const Index t = position(step, x.rows);
    T* const gates = kept.gates.view().row(t);
    if (copies) {
      kernel::multiply_add({h, 1, width}, of_state.read(), {gates, 1, 4 * width});
      activate(gates, width);
    } else {
      lstm_gates(weights_, h, gates);
    }
    lstm_state<T>(gates, c, nullptr, width, kept.c.view().row(t), kept.h.view().row(t));
    h = kept.h.view().row(t);
    c = kept.c.view().row(t);
  }
  return kept;
}

template <class T>
void Lstm<T>::backward(MatrixView<const T> x, Kept& kept, OwnedMatrix<T>& dh, MatrixView<T> dw,
                       MatrixView<T> db, MatrixView<T> dx) const {
  const Index width = weights_.width();
  const OwnedMatrix<T> zero = OwnedMatrix<T>::zeros(1, width);
  OwnedMatrix<T> dc = OwnedMatrix<T>::zeros(1, width);
  OwnedMatrix<T> dprevious(1, width);
  OwnedMatrix<T> previous =
      OwnedMatrix<T>::zeros(x.rows, width);  // h before each step, by position
  for (Index step = x.rows; step-- > 0;) {
    const Index t = position(step, x.rows);
    const Index before = position(step - 1, x.rows);
    const T* const c = step > 0 ? kept.c.view().row(before) : zero.data();
    T* const gates = kept.gates.view().row(t);
    lstm_gradient<T>(gates, c, kept.c.view().row(t), dh.view().row(t), width, dc.data(),
                     dprevious.data());
    std::swap(dc, dprevious);
    if (step == 0) continue;
    std::copy_n(kept.h.view().row(before), width, previous.view().row(t));
    kernel::multiply_add({gates, 1, 4 * width}, weights_.of_state(),
                         dh.view().row_range(before, 1));
  }
  if (dw.data != nullptr) {
    kernel::add_transposed_product(kept.gates.read(), previous.read(),
                                   {dw.data, dw.rows, width, dw.row_stride});
    kernel::add_transposed_product(kept.gates.read(), x,
                                   {dw.data + width, dw.rows, dw.cols - width, dw.row_stride});
  }
  if (db.data != nullptr) {
    for (Index t = 0; t < x.rows; ++t) {
      for (Index n = 0; n < 4 * width; ++n) db.data[n] += kept.gates.read()(t, n);
    }
  }
  if (dx.data != nullptr) kernel::multiply_add(kept.gates.read(), weights_.of_input(), dx);
}

#define ATTN_LSTM(T)                                                               \
  template OwnedMatrix<T> lstm_inputs(const LstmWeights<T>&, MatrixView<const T>); \
  template void lstm_gates(const LstmWeights<T>&, const T*, T*);                   \
  template void lstm_state(const T*, const T*, const T*, Index, T*, T*);           \
  template void lstm_gradient(T*, const T*, const T*, const T*, Index, T*, T*);    \
  template class Lstm<T>;
ATTN_LSTM(float)
ATTN_LSTM(double)
#undef ATTN_LSTM

}  // namespace attn::mechanisms
