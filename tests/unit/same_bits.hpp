#pragma once

#include <cstring>
#include <vector>

#include "tensor/view.hpp"

namespace attn::testing {

/// Whether all bytes are equal, also those of NaN.
template <class T>
bool same_bits(const T* a, const T* b, Index count) {
  return count == 0 || std::memcmp(a, b, static_cast<std::size_t>(count) * sizeof(T)) == 0;
}

template <class T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && same_bits(a.data(), b.data(), static_cast<Index>(a.size()));
}

/// The same, but false for vectors without elements.
template <class T>
bool same_nonempty_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return !a.empty() && same_bits(a, b);
}

}  // namespace attn::testing
