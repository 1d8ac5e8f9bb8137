#pragma once

#include <cstdint>

#include "tensor/shape.hpp"

namespace attn {

/// Two numbers are the same if they are equal, or both finite with |a - b| <= absolute + relative
/// |b|. A NaN differs from everything; with `nan_equal` it is the same as another NaN.
struct Tolerance {
  double relative = 0;
  double absolute = 0;
  bool nan_equal = false;
};

/// The differences of two arrays, gathered block by block. Errors are |a - b| and |a - b| / |b|.
/// Both are infinite if exactly one number is infinite, or if both are with opposite signs; the
/// relative error is also infinite if b is 0 and a is not. A NaN that differs is the largest error
/// of all. The positions (row-major) belong to the first element with the largest error; they are
/// -1 while all errors are 0.
struct Difference {
  Index compared = 0;
  Index differing = 0;  ///< elements that are not the same
  double largest_absolute = 0;
  double largest_relative = 0;
  Index absolute_at = -1;
  Index relative_at = -1;

  /// Compares a[k] with b[k], elements `first` + k of their arrays. Integers are compared exactly;
  /// their errors are rounded to double.
  void add(const double* a, const double* b, Index first, Index count, const Tolerance& tolerance);
  void add(const std::int64_t* a, const std::int64_t* b, Index first, Index count,
           const Tolerance& tolerance);

 private:
  void note(double absolute, double relative, Index at);
};

}  // namespace attn
