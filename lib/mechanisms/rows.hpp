#pragma once

#include <algorithm>
#include <cmath>

#include "attnkit/error.hpp"
#include "kernel/tile.hpp"
#include "tensor/owned_matrix.hpp"

namespace attn::mechanisms {

/// to_j += from_j.
template <class T>
void add_to(OwnedMatrix<T>& to, const T* from) {
  for (Index n = 0; n < to.size(); ++n) to.data()[n] += from[n];
}

/// Throws Error(numerical) for a score that is not finite.
template <class T>
void require_finite(const T* s, Index n) {
  if (std::all_of(s, s + n, [](T one) { return std::isfinite(one); })) return;
  throw Error(Failure::numerical, "a score is beyond the range of the type");
}

/// s ← softmax(s). Throws Error(numerical) for a score that is not finite.
template <class T>
void softmax_row(T* s, Index n) {
  if (n == 0) return;
  require_finite(s, n);
  const double shift = kernel::row_max(s, n, nullptr);
  const double sum = kernel::exp_row(s, s, n, nullptr, shift);
  kernel::scale_row(s, n, 1 / sum);
}

/// d_j ← w_j (d_j − Σ w d): turns the gradient with respect to w = softmax(s) into that with
/// respect to s.
template <class T>
void softmax_gradient(const T* w, T* d, Index n) {
  const double mean = kernel::weighted_sum(w, d, n);
  for (Index j = 0; j < n; ++j) {
    d[j] = static_cast<T>(static_cast<double>(w[j]) * (static_cast<double>(d[j]) - mean));
  }
}

/// d_j ← d_j (1 − y_j²) for y = tanh(x).
template <class T>
void tanh_gradient(const T* y, Index n, T* d) {
  for (Index j = 0; j < n; ++j) d[j] *= 1 - y[j] * y[j];
}

}  // namespace attn::mechanisms
