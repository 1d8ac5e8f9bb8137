#pragma once

#include <cstdint>
#include <vector>

#include "paths/relu_layers.hpp"
#include "tensor/pooled_vector.hpp"

namespace attn {

/// The path of a weight W_l[a, b] goes back from a and on from b along the skeleton. The basis is
/// the paths of all weights; the skeleton's weights into and out of a hidden node have the same
/// path. Any skeleton therefore has (weights − hidden nodes) basis paths. They are independent:
/// their structure vectors, without the skeleton's weights out of hidden nodes, form a triangular
/// matrix with ones on its diagonal. A basis path is numbered by its first weight other than the
/// skeleton's weights out of hidden nodes: layer by layer, row by row, column by column.
class ReluBasis {
 public:
  /// Both arguments must outlive the basis. Requires a skeleton of these layers.
  ReluBasis(const ReluLayers& layers, const ReluSkeleton& skeleton);

  const ReluLayers& layers() const { return layers_; }

  /// Whether W_l[a, b] is the skeleton's weight into b; out of a.
  bool is_in(Index layer, Index a, Index b) const {
    return layer < layers_.count() && skeleton_.in_of(layers_.hidden_node(layer, b)) == a;
  }
  bool is_out(Index layer, Index a, Index b) const {
    return layer > 1 && skeleton_.out_of(layers_.hidden_node(layer - 1, a)) == b;
  }

  /// The number of the path of W_l[a, b], which must not be the skeleton's weight out of a.
  Index number(Index layer, Index a, Index b) const;

  /// Writes the L + 1 nodes of basis path `number`. I is Index or, for sizes that fit, int32.
  template <class I>
  void path(Index number, I* nodes) const;

  /// Writes the nodes of the paths [first, first + count): `out` has count (L + 1) numbers.
  void paths(Index first, Index count, std::int32_t* out, int threads) const;

  Index in_of(Index layer, Index b) const { return skeleton_.in_of(layers_.hidden_node(layer, b)); }
  Index out_of(Index layer, Index a) const {
    return skeleton_.out_of(layers_.hidden_node(layer, a));
  }

 private:
  const ReluLayers& layers_;
  const ReluSkeleton& skeleton_;
  std::vector<Index> first_;  // the first path of each layer of weights, and the number of all
};

/// For each node, the products of the skeleton's weights from the inputs to the node and from the
/// node to the outputs, 1 without weights; in float64, with one rounding for each weight but the
/// first.
struct ReluProducts {
  PooledVector<double> into;
  PooledVector<double> onward;

  template <class T>
  ReluProducts(const ReluBasis& basis, const ReluMatrices<const T>& weights);
};

/// Writes the values of all basis paths, in order: products in float64 with L − 1 roundings, then
/// rounded to T. A value beyond T becomes infinite.
template <class T>
void basis_values(const ReluBasis& basis, const ReluMatrices<const T>& weights, T* values,
                  int threads);

/// Writes the weights with these basis values and with `in_weights`, by hidden node, as the
/// skeleton's weights into the nodes. With U(b) the product of the in_weights from the inputs to b,
/// T(b) the value of the skeleton's path through b, and both 1 for inputs and outputs,
///
///   W_l[a, b] = v U(b) / (U(a) T(b)),   v the value of the path of W_l[a, b].
///
/// With the in_weights of the network that the values come from, the result is its weights, up to 2
/// L + 2 roundings in T. Other in_weights of the same signs give a rescaling of that network, with
/// the same output. Other signs give the same values, but other activities. Not finite where a T(b)
/// or an in_weight is 0.
template <class T>
void basis_weights(const ReluBasis& basis, const T* values, const std::vector<T>& in_weights,
                   const ReluMatrices<T>& weights, int threads);

}  // namespace attn
