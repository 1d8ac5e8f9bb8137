#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "attnkit/basis_paths.hpp"
#include "attnkit/error.hpp"
#include "attnkit/tensor.hpp"

/// Basis paths of ReLU networks without biases, in batches (SI (3.5)-(3.7); MATHEMATICS.md §6).
/// Layer l has n_l nodes, l = 0, …, L; W_l is (n_{l−1}, n_l), x_l = relu(x_{l−1} W_l) for l < L,
/// and x_L = x_{L−1} W_L. The nodes of the layers 0 < l < L are hidden. A path has one node of each
/// layer; its value is the product of its L weights. Scaling the weights into a hidden node by f >
/// 0 and the weights out of the node by 1/f changes neither the values of paths nor the output. All
/// paths follow from (weights − hidden nodes) basis paths.
namespace attn {

/// One weight into and one weight out of each hidden node, given by the node at its other end in
/// the layer before and in the layer after; in the order of hidden nodes, layer by layer.
struct ReluSkeleton {
  std::vector<Index> in;
  std::vector<Index> out;

  Index in_of(Index hidden) const { return in[static_cast<std::size_t>(hidden)]; }
  Index out_of(Index hidden) const { return out[static_cast<std::size_t>(hidden)]; }
};

/// A hidden node whose ratio is too small or not finite.
struct SingularNode {
  Index layer;
  Index node;
  double ratio;  ///< before it was clipped
};

struct ReluStepSummary {
  std::vector<SingularNode> singular;  ///< in the order of hidden nodes
  /// The range of the ratios, singular ones included; empty (least > largest) without hidden nodes.
  double least_ratio = std::numeric_limits<double>::infinity();
  double largest_ratio = -std::numeric_limits<double>::infinity();
  /// max over hidden nodes of |Σ_in G W − Σ_out G W| / (Σ_in |G W| + Σ_out |G W|): 0 up to rounding
  /// for the gradients of a loss of the output, which no rescaling changes.
  double inconsistency = 0;
};

/// W_1, …, W_L of all networks, or their gradients: W_l is (leading, n_{l−1}, n_l).
template <class T>
using ReluWeights = std::vector<TensorView<T>>;

/// Basis paths of float or double networks of one shape; every position of the leading axes is a
/// network with a skeleton of its own. Skeletons are passed in row-major order of the leading axes.
/// Different plans may run at the same time in different threads; one plan must not run twice at a
/// time. Every function throws Error(input) for arrays whose shapes are not the plan's and for
/// skeletons that do not fit.
template <class T>
class ReluPathPlan {
 public:
  /// `sizes` are n_0, …, n_L. threads ≥ 1, else Error(usage); no result depends on their number.
  /// Throws Error(input) for fewer than two sizes, a size below 1, and arrays of more than 2⁶³ − 1
  /// numbers, and Error(memory) if the plan does not fit into memory, as its functions do.
  ReluPathPlan(const Shape& leading, const std::vector<Index>& sizes, int threads);

  ~ReluPathPlan();
  ReluPathPlan(ReluPathPlan&&) noexcept;
  ReluPathPlan& operator=(ReluPathPlan&&) noexcept;

  const Shape& leading() const;
  Index layers() const;                    ///< L
  Shape weights_shape(Index layer) const;  ///< of W_layer, from 1 to L: leading, n_{l−1}, n_l
  Shape values_shape() const;              ///< leading, weights − hidden nodes
  Shape hidden_shape() const;              ///< leading, hidden nodes
  /// For si_adam, and for si_sgd with momentum: leading, weights − hidden nodes, by basis path. For
  /// adam and sgd: leading, weights, matrix by matrix, row by row.
  Shape moments_shape(Optimizer optimizer) const;

  /// The most bytes of working memory that a call takes, arguments and results not included. The
  /// first call allocates it and later calls reuse it.
  std::int64_t workspace_bytes() const;

  /// Node b of layer l has the weights from node b mod n_{l−1} and to node b mod n_{l+1}.
  std::vector<ReluSkeleton> cyclic_skeletons() const;

  /// Each node gets two weights: the last weight of the path from the inputs to the node whose
  /// value is largest in magnitude, and the first weight of such a path from the node to the
  /// outputs. Ties go to the lower node. Throws Error(input) for numbers that are not finite.
  std::vector<ReluSkeleton> largest_skeletons(const ReluWeights<const T>& weights);

  /// The L + 1 nodes of basis path `number`, counted from 0. The path of a weight goes backward and
  /// onward from the weight along the skeleton. Paths are numbered by their first weight that is
  /// not the skeleton's weight out of a hidden node: layer by layer, row by row, column by column.
  /// Throws Error(usage) for a number out of range.
  std::vector<Index> path(const ReluSkeleton& skeleton, Index number) const;

  /// Writes the values of the basis paths (leading, weights − hidden nodes): products in float64
  /// with L − 1 roundings, then rounded to T. A value beyond T becomes infinite. Throws
  /// Error(input) for weights that are not finite.
  void decompose(const ReluWeights<const T>& weights, const std::vector<ReluSkeleton>& skeletons,
                 TensorView<T> values);

  /// Writes the weights with these basis values and with `in_weights` (leading, hidden nodes) as
  /// the skeleton's weights into the nodes. With the in_weights of the network that the values come
  /// from, the result is its weights, up to 2 L + 2 roundings in T. Other in_weights of the same
  /// signs give a rescaling of that network, with the same output. Not finite where a skeleton's
  /// path or an in_weight is 0.
  void compose(TensorView<const T> values, TensorView<const T> in_weights,
               const std::vector<ReluSkeleton>& skeletons, const ReluWeights<T>& weights);

  /// One step, in place. `gradients` are ∂L/∂W of a loss of the output.
  ///
  /// - sgd: W ← W − ηG.
  /// - adam: the same with Adam's step.
  /// - si_sgd: steps on the values of the basis paths, v ← v − η ∂L/∂v.
  /// - si_adam: the same with Adam's step.
  ///
  /// In paths, the skeleton's weights into nodes stay as they are, and all other weights change
  /// such that the paths get their new values (formulas in MATHEMATICS.md §6). From a network and
  /// from any rescaling of it the outputs then follow the same trajectory, to the last bit if the
  /// factors are powers of two.
  ///
  /// A node's ratio is the value of the skeleton's path through it after the step, divided by the
  /// value before. The node is singular if its ratio is below options.min_ratio or not finite. That
  /// path then keeps its value, or with options.clips is multiplied by min_ratio; all other paths
  /// move. A weight of the skeleton that is 0 makes its nodes singular, and nothing in that network
  /// changes. A path that stays keeps its moments.
  ///
  /// sgd and adam ignore the skeletons and have no ratios. Adam's rules need both moments, a
  /// momentum the first; zeros before the first step. gradient_factor and decay apply to the
  /// gradients and values of basis paths, or of weights. Computed in float64, rounded once; a
  /// number beyond T becomes infinite. Throws Error(usage) for si_sgd_printed and for options out
  /// of range; Error(input) for weights and gradients that are not finite.
  std::vector<ReluStepSummary> step(const StepOptions& options,
                                    const std::vector<ReluSkeleton>& skeletons,
                                    const ReluWeights<const T>& gradients,
                                    const ReluWeights<T>& weights,
                                    const PathMoments<T>& moments = {});

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace attn
