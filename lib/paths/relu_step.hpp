#pragma once

#include "attnkit/relu_paths.hpp"
#include "paths/relu_basis.hpp"

namespace attn {

/// The matrices of a step of one network.
template <class T>
struct ReluStepMatrices {
  ReluMatrices<T> weights;          ///< updated in place
  ReluMatrices<const T> gradients;  ///< of a loss of the output, by matrix
  /// m and v, updated in place: for si_sgd and si_adam (1, rank), by basis path; for sgd and adam
  /// (1, weights), by weight, matrix by matrix, row by row. Zeros before the first step. Adam's
  /// rules use both, a momentum the first.
  MatrixView<T> first_moment = {};
  MatrixView<T> second_moment = {};
};

/// One step. sgd: W ← W − ηG, with momentum and decay if the options have them. adam: the same with
/// Adam's step. Both read no skeleton. si_sgd and si_adam do the same with the values of the basis
/// paths: v ← v − η ∂L/∂v. As L changes with the weights only through these values, W ∂L/∂W = Σ v
/// ∂L/∂v over the basis paths through W. This is a triangular system. With G = W_l[a,b]
/// ∂L/∂W_l[a,b], its solution for the path of each weight that is not the skeleton's out of a node
/// is
///
///   v ∂L/∂v = G, less r(b) if W_l[a,b] is the skeleton's into b,
///   r(b) = Σ_{c ≠ s} W_{l+1}[b,c] ∂L/∂W_{l+1}[b,c] + r(s) if W_{l+1}[b,s] is also that into s,
///
/// where W_{l+1}[b,s] is the skeleton's out of b. The skeleton's weights into nodes stay as they
/// are. With U and D the products of the skeleton's weights up to and onward from a node, u the
/// step of a path (v ← v − u), and R(b) the value of the skeleton's path through b after the step
/// divided by the value before (1 for outputs),
///
///   W_l[a,b] ← W_l[a,b] R(a) / R(b)                    for the skeleton's out of a,
///   W_l[a,b] ← (W_l[a,b] − u / (U(a) D(b))) / R(b)     for those outside of it.
///
/// The outputs then follow the same trajectory from a network and from any rescaling of it by f >
/// 0, to the last bit if the factors are powers of two.
///
/// A node is singular if R is below `min_ratio` > 0 or not finite. The skeleton's path through it
/// then keeps its value, R = 1, and its moments; all other paths move. With `clips`, R is
/// `min_ratio` instead, unless it is not finite. If a skeleton's path has the value 0, or one that
/// float64 cannot hold, its nodes are singular with R = NaN and nothing changes.
///
/// Arithmetic is in float64, results are rounded once; their bits do not depend on `threads`.
/// Results beyond T are infinite. Requires an optimizer other than si_sgd_printed.
template <class T>
ReluStepSummary step(const StepOptions& options, const ReluLayers& layers,
                     const ReluSkeleton& skeleton, const ReluStepMatrices<T>& matrices,
                     int threads);

}  // namespace attn
