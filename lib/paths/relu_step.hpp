#pragma once

#include "paths/relu_basis.hpp"

namespace attn {

/// One gradient step on the values of the basis paths, v ← v − η ∂L/∂v. `gradients` are ∂L/∂W of a
/// loss of the output, by matrix. As L changes with the weights only through the values of the
/// basis paths, W ∂L/∂W = Σ v ∂L/∂v over the basis paths through W: a triangular system, whose
/// solution is, with G = W_l[a,b] ∂L/∂W_l[a,b] and for the path of each weight that is not the
/// skeleton's out of a node,
///
///   v ∂L/∂v = G, less r(b) if W_l[a,b] is the skeleton's into b,
///   r(b) = Σ_{c ≠ s} W_{l+1}[b,c] ∂L/∂W_{l+1}[b,c] + r(s) if W_{l+1}[b,s] is also that into s,
///
/// where W_{l+1}[b,s] is the skeleton's out of b. The skeleton's weights into nodes stay as they
/// are. With U and D the products of the skeleton's weights into and onward from a node, and R(b)
/// the ratio of the value of the skeleton's path through b after the step to that before, 1 for
/// outputs,
///
///   W_l[a,b] ← W_l[a,b] R(a) / R(b)   for the skeleton's out of a,
///   W_l[a,b] ← (W_l[a,b] − η ∂L/∂W_l[a,b] / (U(a) D(b))²) / R(b)   for those outside of it.
///
/// So from a network and from any rescaling of it by f > 0 the outputs follow the same trajectory,
/// to the last bit if the factors are powers of two. A node is singular if R is below `min_ratio` >
/// 0 or not finite; a weight of the skeleton that is 0 makes it so. If one is, no weight changes.
/// Arithmetic is in float64, results are rounded once; their bits do not depend on `threads`.
/// Results beyond T are infinite.
template <class T>
ReluStepSummary step(double rate, double min_ratio, const ReluBasis& basis,
                     const ReluMatrices<T>& weights, const ReluMatrices<const T>& gradients,
                     int threads);

}  // namespace attn
