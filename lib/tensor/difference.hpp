#pragma once

#include <cstdint>

#include "tensor/shape.hpp"

namespace attn {

/// When two numbers count as the same: equal, or both finite and |a - b| <= absolute +
/// relative |b|. A NaN is the same as nothing, or with `nan_equal` as another NaN only.
struct Tolerance {
  double relative = 0;
  double absolute = 0;
  bool nan_equal = false;
};

/// What sets two arrays apart, gathered block by block. Errors are |a - b| and |a - b| / |b|
/// (infinite where b is 0 and a is not, and where one of the two alone is infinite or both are of
/// opposite signs); a NaN that is not the same is the largest error there is. The positions are
/// those of the first element with the largest error, row-major, -1 while all errors are 0.
struct Difference {
  Index compared = 0;
  Index differing = 0;  ///< elements that are not the same
  double largest_absolute = 0;
  double largest_relative = 0;
  Index absolute_at = -1;
  Index relative_at = -1;

  /// Compares a[k] with b[k], which are elements `first` + k of their arrays. Integers are told
  /// apart exactly, their errors are rounded to double.
  void add(const double* a, const double* b, Index first, Index count, const Tolerance& tolerance);
  void add(const std::int64_t* a, const std::int64_t* b, Index first, Index count,
           const Tolerance& tolerance);

 private:
  void note(double absolute, double relative, Index at);
};

}  // namespace attn
