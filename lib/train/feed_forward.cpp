#include "train/feed_forward.hpp"

#include <algorithm>
#include <utility>

#include "kernel/activation.hpp"

namespace attn::train {

FeedForward::FeedForward(Parameters& parameters, const std::string& prefix, Index width,
                         Index inner, Activation activation, double deviation, double out_deviation)
    : in_(parameters, prefix + "w1", prefix + "b1", width, inner, deviation),
      out_(parameters, prefix + "w2", prefix + "b2", inner, width, out_deviation),
      activation_(activation) {}

template <class T>
OwnedMatrix<T> FeedForward::forward(const Slot<T>& slot, MatrixView<const T> x,
                                    Kept<T>& kept) const {
  OwnedMatrix<T> inner = in_.forward(slot, x);
  if (activation_ == Activation::gelu) {
    kept.before = std::move(inner);
    inner = OwnedMatrix<T>(kept.before.rows(), kept.before.cols());
    kernel::gelu(kept.before.data(), inner.size(), inner.data());
  } else {
    T* const h = inner.data();
    for (Index n = 0; n < inner.size(); ++n) h[n] = std::max(h[n], T{0});
  }
  kept.inner = std::move(inner);
  return out_.forward(slot, std::as_const(kept.inner).view());
}

template <class T>
void FeedForward::backward(const Slot<T>& slot, MatrixView<const T> x, const Kept<T>& kept,
                           MatrixView<const T> dy, MatrixView<T> dx) const {
  OwnedMatrix<T> dh = OwnedMatrix<T>::zeros(kept.inner.rows(), kept.inner.cols());
  out_.backward(slot, kept.inner.view(), dy, dh.view());
  if (activation_ == Activation::gelu) {
    kernel::gelu_slope(kept.before.data(), dh.size(), dh.data());
  } else {
    const T* const h = kept.inner.data();
    T* const d = dh.data();
    for (Index n = 0; n < dh.size(); ++n) d[n] = h[n] > 0 ? d[n] : T{0};
  }
  in_.backward(slot, x, std::as_const(dh).view(), dx);
}

#define ATTN_FEED_FORWARD(T)                                                                  \
  template OwnedMatrix<T> FeedForward::forward(const Slot<T>&, MatrixView<const T>, Kept<T>&) \
      const;                                                                                  \
  template void FeedForward::backward(const Slot<T>&, MatrixView<const T>, const Kept<T>&,    \
                                      MatrixView<const T>, MatrixView<T>) const;
ATTN_FEED_FORWARD(float)
ATTN_FEED_FORWARD(double)
#undef ATTN_FEED_FORWARD

}  // namespace attn::train
