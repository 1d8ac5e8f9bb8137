#pragma once

#include "gradient/adjoints.hpp"
#include "tensor/pooled_vector.hpp"

namespace attn {

/// The adjoints of Sinkhorn's unrolled iterations (scheme/gradient.hpp): first of the last
/// iteration, which makes the weights, then of the others, from the last but one to the first.
template <class T>
PooledVector<WeightAdjoint<T>> unrolled_adjoints(const Forward<T>& forward,
                                                 const TileProduct<T>& products, int threads);

}  // namespace attn
