#pragma once

#include "gradient/gradient.hpp"

namespace attn {

/// Backward through the scheme transport, exact, with the derivatives of TransportRows: makes the
/// weights of gradient_tile_rows queries × all keys at a time, and shows the sinks ∂L/∂s and ∂L/∂u
/// by tiles. Bits do not depend on the number of threads. Each rank computes all of it. Throws
/// whatever the scores throw, and the errors of TransportRows.
template <class T>
void differentiate_transport(const Forward<T>& forward, const TileProduct<T>& products,
                             const GradientTargets<T>& targets, int threads);

/// Bytes of scratch memory that it takes, without sinks.
std::int64_t transport_gradient_bytes(const GradientSizes& sizes);

}  // namespace attn
