#pragma once

#include <cstring>

#include "tensor/view.hpp"

namespace attn::testing {

/// Whether all bytes are equal, also those of NaN.
template <class T>
bool same_bits(const T* a, const T* b, Index count) {
  return count == 0 || std::memcmp(a, b, static_cast<std::size_t>(count) * sizeof(T)) == 0;
}

template <class Vector, class Other>
bool same_bits(const Vector& a, const Other& b) {
  return a.size() == b.size() && same_bits(a.data(), b.data(), static_cast<Index>(a.size()));
}

/// The same, but false for vectors without elements.
template <class Vector, class Other>
bool same_nonempty_bits(const Vector& a, const Other& b) {
  return !a.empty() && same_bits(a, b);
}

}  // namespace attn::testing
