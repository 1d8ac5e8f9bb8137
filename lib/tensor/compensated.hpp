#pragma once

#include <cmath>
#include <span>

namespace attn {

/// A sum and its rounding error (Neumaier).
class Compensated {
 public:
  void add(double term) {
    const double next = sum_ + term;
    rest_ += std::abs(sum_) >= std::abs(term) ? (sum_ - next) + term : (term - next) + sum_;
    sum_ = next;
  }
  double value() const { return sum_ + rest_; }

 private:
  double sum_ = 0;
  double rest_ = 0;
};

/// The sum of the terms, in their order.
inline double compensated_sum(std::span<const double> terms) {
  Compensated sum;
  for (const double term : terms) sum.add(term);
  return sum.value();
}

}  // namespace attn
