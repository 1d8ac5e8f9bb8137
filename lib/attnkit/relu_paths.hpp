#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "attnkit/basis_paths.hpp"
#include "attnkit/context.hpp"
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

/// W_1, …, W_L, or their gradients.
template <class T>
using ReluWeights = std::vector<TensorView<T>>;

/// The shapes that a plan is made for: of W_1, …, W_L, and of their gradients, if there are any.
struct ReluShapes {
  std::vector<Shape> weights;         ///< (…, n_{l−1}, n_l), each length at least 1
  std::vector<Shape> gradients = {};  ///< as the weights, or none
};

/// The arrays of one run, finite.
template <class T>
struct ReluInputs {
  ReluWeights<const T> weights = {};
  ReluWeights<const T> gradients = {};  ///< ∂L/∂W of a loss of the output
  /// One for each problem, in row-major order of the leading axes. Steps of sgd and adam need none.
  std::vector<ReluSkeleton> skeletons = {};
};

/// The shapes of arrays.
template <class T>
ReluShapes shapes_of(const ReluInputs<T>& inputs);

/// Where results go. A result that is empty, or whose view has no data, is not computed. `leading`
/// stands for the leading axes of the results.
template <class T>
struct ReluOutputs {
  /// The weights after a step (leading, n_{l−1}, n_l), of all layers. They may be the arrays of the
  /// inputs, if these have all leading axes: the step is then in place.
  ReluWeights<T> weights = {};
  /// The moments of the step before, which a step updates in place; zeros before the first step.
  /// For optimisers in paths: (leading, weights − hidden nodes), by basis path. For optimisers of
  /// weights: (leading, weights), matrix by matrix, row by row. Adam's rules need both, a momentum
  /// the first; other moments are not touched.
  TensorView<T> first_moment = {};
  TensorView<T> second_moment = {};
  /// The values of the basis paths of the inputs (leading, weights − hidden nodes): products in
  /// float64 with L − 1 roundings, then rounded to T. A value beyond T becomes infinite.
  TensorView<T> values = {};
};

/// Values of basis paths, of which ReluPathPlan::compose makes weights.
template <class T>
struct ReluValues {
  TensorView<const T> values;           ///< (leading, weights − hidden nodes), as in ReluOutputs
  TensorView<const T> in_weights;       ///< (leading, hidden nodes): the skeleton's into the nodes
  std::vector<ReluSkeleton> skeletons;  ///< of each problem
};

/// Basis paths of float or double networks of one form, used like PathPlan. Leading axes are batch
/// axes and broadcast, as in attnkit/basis_paths.hpp; every position of the results' leading axes
/// is a network with a skeleton of its own.
template <class T>
class ReluPathPlan {
 public:
  /// Arguments as for PathPlan. Throws Error(input) for no weights, for shapes that do not fit and
  /// for arrays of more than 2⁶³ − 1 numbers, Error(usage) for options out of range and for
  /// si_sgd_printed, and Error(memory) if the plan does not fit into memory, as its functions do.
  ReluPathPlan(const ReluShapes& shapes, const StepOptions& options, const Context& context);

  ~ReluPathPlan();
  ReluPathPlan(ReluPathPlan&&) noexcept;
  ReluPathPlan& operator=(ReluPathPlan&&) noexcept;

  /// See PathPlan::set_step.
  void set_step(Index number, double rate, double gradient_factor = 1);

  /// The leading axes of the results, and the shapes of arrays.
  const Shape& leading() const;
  Index layers() const;                    ///< L
  Shape weights_shape(Index layer) const;  ///< of W_layer, from 1 to L: leading, n_{l−1}, n_l
  Shape values_shape() const;              ///< leading, weights − hidden nodes
  Shape hidden_shape() const;              ///< leading, hidden nodes
  Shape moments_shape() const;             ///< of either moment

  /// The most bytes of working memory that a call takes, arguments and results not included. The
  /// first call allocates it and later calls reuse it.
  std::int64_t workspace_bytes() const;

  /// Node b of layer l has the weights from node b mod n_{l−1} and to node b mod n_{l+1}.
  std::vector<ReluSkeleton> cyclic_skeletons() const;

  /// Each node gets two weights: the last weight of the path from the inputs to the node whose
  /// value is largest in magnitude, and the first weight of such a path from the node to the
  /// outputs. Ties go to the lower node. Throws the errors of `run`.
  std::vector<ReluSkeleton> largest_skeletons(const ReluInputs<T>& inputs);

  /// The L + 1 nodes of basis path `number`, counted from 0. The path of a weight goes backward and
  /// onward from the weight along the skeleton. Paths are numbered by their first weight that is
  /// not the skeleton's weight out of a hidden node: layer by layer, row by row, column by column.
  /// Throws Error(usage) for a number out of range.
  std::vector<Index> path(const ReluSkeleton& skeleton, Index number) const;

  /// Computes the outputs, and returns the summary of each problem in row-major order of the
  /// leading axes; without a step, they are empty. A step is, for
  ///
  /// - sgd: W ← W − ηG.
  /// - adam: the same with Adam's step.
  /// - si_sgd: a step on the values of the basis paths, v ← v − η ∂L/∂v.
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
  /// changes. A path that stays keeps its moments. sgd and adam have no ratios.
  ///
  /// gradient_factor and decay apply to the gradients and values of basis paths, or of weights.
  /// Computed in float64, rounded once; a number beyond T becomes infinite. Throws the errors of
  /// PathPlan::run.
  std::vector<ReluStepSummary> run(const ReluInputs<T>& inputs, const ReluOutputs<T>& outputs);

  /// Writes the weights with these values of basis paths. With the in_weights of the network that
  /// the values come from, the result is its weights, up to 2 L + 2 roundings in T. Other
  /// in_weights of the same signs give a rescaling of that network, with the same output. Not
  /// finite where a skeleton's path or an in_weight is 0. Throws Error(input) for arrays and
  /// skeletons that do not fit.
  void compose(const ReluValues<T>& values, const ReluWeights<T>& weights);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace attn
