#pragma once

#include <cmath>
#include <limits>
#include <string>

#include "io/input.hpp"
#include "tensor/buffer.hpp"
#include "tensor/shape.hpp"

namespace attn::tools {

// Numbers that basis-paths reads are finite, and numbers that it writes are within the range of
// their type.

/// Start and count of a block along the axes of a dataset.
struct PathBlock {
  Shape start;
  Shape count;
};

/// Reads a block. Throws Error(input) naming an element that is not finite.
template <class T>
Buffer<T> read_finite(const ArraySource& dataset, const PathBlock& block);

/// Throws Error(input): element `flat` of a block is `index`, not `what` ("a node") in [0, end).
[[noreturn]] void refuse_index(const ArraySource& dataset, const PathBlock& block, Index flat,
                               Index index, const char* what, Index end);

/// Throws Error(numerical): element `flat` of a block of result `name` is "beyond" or "below" the
/// range of T.
template <class T>
[[noreturn]] void refuse_number(const std::string& name, const PathBlock& block, Index flat,
                                const char* where);

/// Throws that error for the first number of a block that is not finite.
template <class T>
void require_within_range(const std::string& name, const PathBlock& block, const T* values);

/// Throws that error for the first number with less than a full significand in T, unless
/// `is_exact(flat)`.
template <class T, class IsExact>
void require_normal(const std::string& name, const PathBlock& block, const Buffer<T>& values,
                    const IsExact& is_exact) {
  for (Index n = 0; n < values.size(); ++n) {
    if (!(std::abs(values[n]) < std::numeric_limits<T>::min()) || is_exact(n)) continue;
    refuse_number<T>(name, block, n, "below");
  }
}

}  // namespace attn::tools
