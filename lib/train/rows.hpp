#pragma once

#include "tensor/owned_matrix.hpp"

namespace attn::train {

/// sum_c += term_c, for n numbers.
template <class T>
void add_row(T* sum, const T* term, Index n) {
  for (Index c = 0; c < n; ++c) sum[c] += term[c];
}

/// to += from, element by element; of the same size, without gaps between rows.
template <class T>
void add_to(OwnedMatrix<T>& to, MatrixView<const T> from) {
  add_row(to.data(), from.data, to.size());
}

}  // namespace attn::train
