#include "train/softmax_layer.hpp"

#include <algorithm>
#include <utility>

#include "kernel/product.hpp"
#include "train/linear.hpp"
#include "train/softmax_loss.hpp"

namespace attn::train {
namespace {

// Rows whose logits exist at the same time.
constexpr Index most_rows = 256;

}  // namespace

SoftmaxLayer::SoftmaxLayer(Parameters& parameters, const std::string& prefix,
                           const std::optional<MatrixPlace>& tied, Index vocabulary, Index width,
                           double deviation, double smoothing)
    : weight_(tied ? *tied
                   : parameters.add_matrix(prefix + "softmax", vocabulary, width, deviation)),
      bias_(parameters.add_vector(prefix + "softmax_bias", vocabulary, 0)),
      smoothing_(smoothing) {}

template <class T>
OwnedMatrix<T> SoftmaxLayer::logits(const T* weights, MatrixView<const T> x) const {
  OwnedMatrix<T> z(x.rows, weight_.rows);
  kernel::multiply_transposed(x, weight_.in(weights), z.view());
  add_to_rows(z.view(), weights + bias_);
  return z;
}

template <class T>
Prediction SoftmaxLayer::forward(const Slot<T>& slot, MatrixView<const T> x, const Targets& targets,
                                 double factor, MatrixView<T> dx, Prediction* by_target) const {
  const bool differentiates = dx.data != nullptr;
  const Index vocabulary = weight_.rows;
  if (differentiates) {
    std::fill_n(slot.gradients + bias_, vocabulary, T{0});
    if (targets.count() == 0) set_to_zero(weight_.in(slot.gradients));
  }
  Prediction total;
  for (Index first = 0; first < targets.count(); first += most_rows) {
    const Index count = std::min(most_rows, targets.count() - first);
    const Index* const row_of = targets.rows.data() + first;
    OwnedMatrix<T> chosen(count, x.cols);
    for (Index r = 0; r < count; ++r) {
      std::copy_n(x.row(row_of[r]), x.cols, chosen.view().row(r));
    }
    const MatrixView<const T> input = std::as_const(chosen).view();
    OwnedMatrix<T> z = logits(slot.weights, input);
    for (Index r = 0; r < count; ++r) {
      const Index token = targets.tokens[static_cast<std::size_t>(first + r)];
      const Prediction one = softmax_loss(z.view().row(r), vocabulary, token, smoothing_, factor);
      if (by_target != nullptr) by_target[first + r] = one;
      total.add(one);
    }
    if (!differentiates) continue;
    const MatrixView<const T> dz = std::as_const(z).view();
    if (first == 0) {
      kernel::transposed_product(dz, input, weight_.in(slot.gradients));
    } else {
      kernel::add_transposed_product(dz, input, weight_.in(slot.gradients));
    }
    T* const dbias = slot.gradients + bias_;
    for (Index r = 0; r < count; ++r) add_row(dbias, dz.row(r), vocabulary);
    OwnedMatrix<T> dchosen(count, x.cols);
    kernel::multiply(dz, weight_.in(slot.weights), dchosen.view());
    for (Index r = 0; r < count; ++r) {
      add_row(dx.row(row_of[r]), std::as_const(dchosen).view().row(r), x.cols);
    }
  }
  return total;
}

template <class T>
PassBytes SoftmaxLayer::bytes(Index targets) const {
  const Index rows = std::min(most_rows, targets);
  const std::int64_t chosen = row_bytes<T>(rows, weight_.cols);
  const std::int64_t logits = row_bytes<T>(rows, weight_.rows);
  return {0, chosen + logits, 2 * chosen + logits};
}

#define ATTN_SOFTMAX_LAYER(T)                                                                    \
  template Prediction SoftmaxLayer::forward(const Slot<T>&, MatrixView<const T>, const Targets&, \
                                            double, MatrixView<T>, Prediction*) const;           \
  template OwnedMatrix<T> SoftmaxLayer::logits(const T*, MatrixView<const T>) const;             \
  template PassBytes SoftmaxLayer::bytes<T>(Index) const;
ATTN_SOFTMAX_LAYER(float)
ATTN_SOFTMAX_LAYER(double)
#undef ATTN_SOFTMAX_LAYER

}  // namespace attn::train
