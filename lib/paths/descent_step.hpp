#pragma once

#include "attnkit/basis_paths.hpp"
#include "tensor/view.hpp"

namespace attn {

/// Steps of gradient descent, with decay and a momentum, which is kept by row and column, where the
/// options have them (StepOptions). All in float64; a momentum is rounded to T.
template <class T>
class DescentStep {
 public:
  /// The options must outlive it.
  DescentStep(const StepOptions& options, MatrixView<T> momentum)
      : options_(options), momentum_(momentum) {}

  /// What is to be subtracted from a number of that gradient and value; changes its momentum.
  double operator()(Index row, Index col, double gradient, double value) const {
    double step = options_.gradient_factor * gradient;
    if (options_.decay != 0) step += options_.decay * value;
    if (options_.momentum != 0) {
      step += options_.momentum * momentum_(row, col);
      momentum_(row, col) = static_cast<T>(step);
    }
    return options_.rate * step;
  }

 private:
  const StepOptions& options_;
  MatrixView<T> momentum_;
};

}  // namespace attn
