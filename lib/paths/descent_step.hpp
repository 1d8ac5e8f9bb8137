#pragma once

#include "attnkit/basis_paths.hpp"
#include "tensor/view.hpp"

namespace attn {

/// Steps of gradient descent, with decay and a momentum by row and column if the options have them
/// (StepOptions). Computed in float64; a momentum is rounded to T.
template <class T>
class DescentStep {
 public:
  /// The options must outlive the object.
  DescentStep(const StepOptions& options, MatrixView<T> momentum)
      : options_(options), momentum_(momentum) {}

  /// The step to subtract from a number with this gradient and value. Changes its momentum.
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
