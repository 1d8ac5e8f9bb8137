#pragma once

#include <cmath>

#include "attnkit/basis_paths.hpp"
#include "tensor/view.hpp"

namespace attn {

/// Adam's steps of numbers (StepOptions), with both moments by row and column. Computed in float64;
/// moments are rounded to T.
template <class T>
class AdamStep {
 public:
  /// The options must outlive the object.
  AdamStep(const StepOptions& options, MatrixView<T> first, MatrixView<T> second)
      : options_(options),
        first_(first),
        second_(second),
        first_correction_(1 - std::pow(options.beta1, static_cast<double>(options.number))),
        second_correction_(1 - std::pow(options.beta2, static_cast<double>(options.number))) {}

  /// The step to subtract from a number with this gradient and value. Changes its moments.
  double operator()(Index row, Index col, double gradient, double value) const {
    const double g = options_.gradient_factor * gradient;
    const double m = options_.beta1 * first_(row, col) + (1 - options_.beta1) * g;
    const double v = options_.beta2 * second_(row, col) + (1 - options_.beta2) * g * g;
    first_(row, col) = static_cast<T>(m);
    second_(row, col) = static_cast<T>(v);
    const double step = options_.rate * (m / first_correction_) /
                        (std::sqrt(v / second_correction_) + options_.epsilon);
    return options_.decay == 0 ? step : step + options_.rate * options_.decay * value;
  }

 private:
  const StepOptions& options_;
  MatrixView<T> first_;
  MatrixView<T> second_;
  double first_correction_;
  double second_correction_;
};

/// The old value of a moment, if there are moments, for a number that does not move after all.
template <class T>
class KeptMoment {
 public:
  KeptMoment(MatrixView<T> moment, Index row, Index col)
      : at_(moment.data == nullptr ? nullptr : &moment(row, col)), value_(at_ ? *at_ : T{0}) {}

  void restore() const {
    if (at_ != nullptr) *at_ = value_;
  }

 private:
  T* at_;
  T value_;
};

}  // namespace attn
