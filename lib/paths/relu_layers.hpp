#pragma once

#include <optional>
#include <vector>

#include "attnkit/relu_paths.hpp"
#include "tensor/view.hpp"

/// Basis paths of ReLU networks without biases (SI (3.5)-(3.7); MATHEMATICS.md §6). Layer l has n_l
/// nodes, l = 0, …, L; W_l is (n_{l−1}, n_l), and x_l = relu(x_{l−1} W_l) for l < L, x_L = x_{L−1}
/// W_L. The nodes of the layers 0 < l < L are hidden. A path has one node of each layer; its value
/// is the product of its L weights. Scaling the weights into a hidden node by f > 0 and the weights
/// out of the node by 1/f changes neither the values of paths nor the output.
namespace attn {

/// The sizes n_0, …, n_L, and how weights, hidden nodes and basis paths are numbered.
class ReluLayers {
 public:
  /// Requires two sizes or more, all >= 1, and products that fit an Index.
  explicit ReluLayers(std::vector<Index> sizes);

  Index count() const {
    return static_cast<Index>(sizes_.size()) - 1;
  }  ///< L, the layers of weights
  const std::vector<Index>& sizes() const { return sizes_; }
  Index size(Index layer) const { return sizes_[static_cast<std::size_t>(layer)]; }

  Index nodes() const { return first_node_.back(); }
  Index hidden() const { return nodes() - sizes_.front() - sizes_.back(); }
  Index weights() const { return weights_; }
  Index rank() const { return weights_ - hidden(); }  ///< of the paths; the size of a basis

  /// The number of a node, counted layer by layer from 0; of a hidden node, counted from the first
  /// hidden node.
  Index node(Index layer, Index at) const {
    return first_node_[static_cast<std::size_t>(layer)] + at;
  }
  Index hidden_node(Index layer, Index at) const { return node(layer, at) - sizes_.front(); }

  /// The number of paths, n_0 n_1 … n_L. Nothing if it does not fit an Index.
  std::optional<Index> path_count() const;

 private:
  std::vector<Index> sizes_;
  std::vector<Index> first_node_;  // by layer, and the number of all
  Index weights_ = 0;
};

/// W_1, …, W_L of one network, or their gradients.
template <class T>
using ReluMatrices = std::vector<MatrixView<T>>;

/// Node b of layer l has the weights from node b mod n_{l−1} and to node b mod n_{l+1}.
ReluSkeleton cyclic_skeleton(const ReluLayers& layers);

/// For each hidden node, two weights: the last weight of the largest path from the inputs to the
/// node, and the first weight of the largest path from the node to the outputs. A path is largest
/// if its value is largest in magnitude. Ties go to the lower node. The skeleton's path through a
/// node is then the largest, also after a rescaling of nodes (exactly for powers of two). Requires
/// finite weights; products are in float64.
template <class T>
ReluSkeleton largest_skeleton(const ReluLayers& layers, const ReluMatrices<const T>& weights);

/// A weight of the skeleton that is 0: W_layer[row, col].
struct ZeroReluWeight {
  Index layer;
  Index row;
  Index col;
};

/// The first zero weight, layer by layer; weights into the nodes of a layer come before weights out
/// of them.
template <class T>
std::optional<ZeroReluWeight> zero_in_skeleton(const ReluLayers& layers,
                                               const ReluSkeleton& skeleton,
                                               const ReluMatrices<const T>& weights);

/// Multiplies the weights into each hidden node by its factor, and divides the weights out of the
/// node by the factor. `of_gradients`: the other way round, as gradients change. `factors` are by
/// hidden node, > 0. Each operation rounds once: exact for powers of two within T's range. Results
/// beyond T are infinite.
template <class T>
void rescale_nodes(const ReluLayers& layers, const std::vector<T>& factors, bool of_gradients,
                   const ReluMatrices<T>& weights, int threads);

}  // namespace attn
