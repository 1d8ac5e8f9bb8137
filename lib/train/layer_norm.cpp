#include "train/layer_norm.hpp"

#include <algorithm>

#include "kernel/layer_norm.hpp"

namespace attn::train {
namespace {

constexpr double layer_norm_epsilon = 1e-5;

}  // namespace

LayerNorm::LayerNorm(Parameters& parameters, const std::string& name, Index width)
    : width_(width),
      gain_(parameters.add_vector(name + "_gain", width, 1)),
      shift_(parameters.add_vector(name + "_shift", width, 0)) {}

template <class T>
OwnedMatrix<T> LayerNorm::forward(const Slot<T>& slot, MatrixView<const T> x, Kept<T>& kept) const {
  kept = {OwnedMatrix<T>(x.rows, 1), OwnedMatrix<T>(x.rows, 1)};
  OwnedMatrix<T> y(x.rows, width_);
  kernel::layer_norm(x, slot.weights + gain_, slot.weights + shift_, layer_norm_epsilon, y.view(),
                     kept.mean.data(), kept.inverse.data());
  return y;
}

template <class T>
OwnedMatrix<T> LayerNorm::backward(const Slot<T>& slot, MatrixView<const T> x, const Kept<T>& kept,
                                   MatrixView<const T> dy) const {
  OwnedMatrix<T> dx(x.rows, width_);
  T* const dgain = slot.gradients + gain_;
  T* const dshift = slot.gradients + shift_;
  std::fill_n(dgain, width_, T{0});
  std::fill_n(dshift, width_, T{0});
  kernel::layer_norm_gradient(x, kept.mean.data(), kept.inverse.data(), slot.weights + gain_, dy,
                              dx.view(), dgain, dshift);
  return dx;
}

#define ATTN_LAYER_NORM(T)                                                                         \
  template OwnedMatrix<T> LayerNorm::forward(const Slot<T>&, MatrixView<const T>, Kept<T>&) const; \
  template OwnedMatrix<T> LayerNorm::backward(const Slot<T>&, MatrixView<const T>, const Kept<T>&, \
                                              MatrixView<const T>) const;
ATTN_LAYER_NORM(float)
ATTN_LAYER_NORM(double)
#undef ATTN_LAYER_NORM

}  // namespace attn::train
