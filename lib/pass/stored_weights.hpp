#pragma once

#include "pass/pass.hpp"
#include "score/matrix_source.hpp"
#include "tensor/pooled_vector.hpp"

namespace attn {

/// Shows ready-made weights (rows × cols) to `observers`, by the tiles of a row-panel pass and with
/// the same guarantees. Throws Error(input) naming the query and key of a weight that is not a
/// finite number >= 0; the weights need not sum to 1.
template <class T>
void show_stored_weights(const MatrixSource<T>& weights, Index rows, Index cols,
                         const ObserverList<T>& observers, int threads);

}  // namespace attn
