#include "train/classifier.hpp"

#include <algorithm>
#include <utility>

namespace attn::train {

Classifier::Classifier(Parameters& parameters, const std::string& prefix, const Options& options)
    : first_(parameters, prefix + "w1", prefix + "b1", options.width, options.inner,
             options.deviation),
      answers_(parameters, prefix, std::nullopt, options.answers, options.inner,
               options.answer_deviation, options.smoothing) {}

template <class T>
Prediction Classifier::forward(const Slot<T>& slot, MatrixView<const T> x, const Targets& targets,
                               double factor, MatrixView<T> dx, Prediction* by_target) const {
  OwnedMatrix<T> inner = first_.forward(slot, x);
  T* const h = inner.data();
  for (Index n = 0; n < inner.size(); ++n) h[n] = h[n] < 0 ? T{0} : h[n];
  const MatrixView<const T> read = std::as_const(inner).view();
  if (dx.data == nullptr) {
    return answers_.forward(slot, read, targets, factor, MatrixView<T>(), by_target);
  }
  OwnedMatrix<T> dinner = OwnedMatrix<T>::zeros(inner.rows(), inner.cols());
  const Prediction found = answers_.forward(slot, read, targets, factor, dinner.view(), by_target);
  T* const d = dinner.data();
  for (Index n = 0; n < inner.size(); ++n) d[n] = h[n] > 0 ? d[n] : T{0};
  first_.backward(slot, x, std::as_const(dinner).view(), dx);
  return found;
}

#define ATTN_CLASSIFIER(T)                                                                     \
  template Prediction Classifier::forward(const Slot<T>&, MatrixView<const T>, const Targets&, \
                                          double, MatrixView<T>, Prediction*) const;
ATTN_CLASSIFIER(float)
ATTN_CLASSIFIER(double)
#undef ATTN_CLASSIFIER

}  // namespace attn::train
