#include "paths/relu_basis.hpp"

#include <algorithm>

#include "parallel/parallel_for.hpp"

namespace attn {

ReluBasis::ReluBasis(const ReluLayers& layers, const ReluSkeleton& skeleton)
    : layers_(layers), skeleton_(skeleton), first_{0} {
  for (Index l = 1; l <= layers.count(); ++l) {
    first_.push_back(first_.back() + layers.size(l - 1) * (layers.size(l) - (l > 1 ? 1 : 0)));
  }
}

Index ReluBasis::number(Index layer, Index a, Index b) const {
  const Index first = first_[static_cast<std::size_t>(layer - 1)];
  if (layer == 1) return first + a * layers_.size(1) + b;
  return first + a * (layers_.size(layer) - 1) + b - (b > out_of(layer - 1, a) ? 1 : 0);
}

template <class I>
void ReluBasis::path(Index number, I* nodes) const {
  const auto after = std::upper_bound(first_.begin(), first_.end(), number);
  const Index layer = after - first_.begin();
  const Index at = number - *(after - 1);
  const Index width = layers_.size(layer) - (layer > 1 ? 1 : 0);
  const Index a = at / width;
  Index b = at % width;
  if (layer > 1 && b >= out_of(layer - 1, a)) ++b;
  nodes[layer - 1] = static_cast<I>(a);
  nodes[layer] = static_cast<I>(b);
  for (Index l = layer - 1; l > 0; --l) nodes[l - 1] = static_cast<I>(in_of(l, nodes[l]));
  for (Index l = layer; l < layers_.count(); ++l) {
    nodes[l + 1] = static_cast<I>(out_of(l, nodes[l]));
  }
}

void ReluBasis::paths(Index first, Index count, std::int32_t* out, int threads) const {
  const Index nodes = layers_.count() + 1;
  parallel_for(count, threads, [&](Index n, int) { path(first + n, out + n * nodes); });
}

template <class T>
ReluProducts::ReluProducts(const ReluBasis& basis, const ReluMatrices<const T>& weights)
    : into(static_cast<std::size_t>(basis.layers().nodes()), 1),
      onward(static_cast<std::size_t>(basis.layers().nodes()), 1) {
  const ReluLayers& layers = basis.layers();
  const auto at = [&](Index layer, Index node) {
    return static_cast<std::size_t>(layers.node(layer, node));
  };
  for (Index l = 1; l < layers.count(); ++l) {
    const MatrixView<const T>& w = weights[static_cast<std::size_t>(l - 1)];
    for (Index b = 0; b < layers.size(l); ++b) {
      const Index a = basis.in_of(l, b);
      into[at(l, b)] = into[at(l - 1, a)] * w(a, b);
    }
  }
  for (Index l = layers.count() - 1; l > 0; --l) {
    const MatrixView<const T>& w = weights[static_cast<std::size_t>(l)];
    for (Index a = 0; a < layers.size(l); ++a) {
      const Index b = basis.out_of(l, a);
      onward[at(l, a)] = w(a, b) * onward[at(l + 1, b)];
    }
  }
}

template <class T>
void basis_values(const ReluBasis& basis, const ReluMatrices<const T>& weights, T* values,
                  int threads) {
  const ReluLayers& layers = basis.layers();
  const ReluProducts products(basis, weights);
  for (Index l = 1; l <= layers.count(); ++l) {
    const MatrixView<const T>& w = weights[static_cast<std::size_t>(l - 1)];
    const double* const into = &products.into[static_cast<std::size_t>(layers.node(l - 1, 0))];
    const double* const onward = &products.onward[static_cast<std::size_t>(layers.node(l, 0))];
    parallel_for(w.rows, threads, [&](Index a, int) {
      for (Index b = 0; b < w.cols; ++b) {
        if (basis.is_out(l, a, b)) continue;
        values[basis.number(l, a, b)] = static_cast<T>(into[a] * w(a, b) * onward[b]);
      }
    });
  }
}

template <class T>
void basis_weights(const ReluBasis& basis, const T* values, const std::vector<T>& in_weights,
                   const ReluMatrices<T>& weights, int threads) {
  const ReluLayers& layers = basis.layers();
  const auto at = [&](Index layer, Index node) {
    return static_cast<std::size_t>(layers.node(layer, node));
  };
  const auto in_weight = [&](Index layer, Index node) {
    return in_weights[static_cast<std::size_t>(layers.hidden_node(layer, node))];
  };
  PooledVector<double> into(static_cast<std::size_t>(layers.nodes()), 1);
  PooledVector<double> through(static_cast<std::size_t>(layers.nodes()), 1);
  for (Index l = 1; l < layers.count(); ++l) {
    for (Index b = 0; b < layers.size(l); ++b) {
      const Index a = basis.in_of(l, b);
      into[at(l, b)] = into[at(l - 1, a)] * in_weight(l, b);
      through[at(l, b)] =
          basis.is_out(l, a, b) ? through[at(l - 1, a)] : values[basis.number(l, a, b)];
    }
  }
  for (Index l = 1; l <= layers.count(); ++l) {
    const MatrixView<T>& w = weights[static_cast<std::size_t>(l - 1)];
    parallel_for(w.rows, threads, [&](Index a, int) {
      for (Index b = 0; b < w.cols; ++b) {
        if (basis.is_in(l, a, b)) {
          w(a, b) = in_weight(l, b);
          continue;
        }
        const double value =
            basis.is_out(l, a, b) ? through[at(l - 1, a)] : values[basis.number(l, a, b)];
        const double onward = through[at(l, b)] / into[at(l, b)];
        w(a, b) = static_cast<T>(value / into[at(l - 1, a)] / onward);
      }
    });
  }
}

template void ReluBasis::path(Index, Index*) const;
template void ReluBasis::path(Index, std::int32_t*) const;
template ReluProducts::ReluProducts(const ReluBasis&, const ReluMatrices<const float>&);
template ReluProducts::ReluProducts(const ReluBasis&, const ReluMatrices<const double>&);
template void basis_values(const ReluBasis&, const ReluMatrices<const float>&, float*, int);
template void basis_values(const ReluBasis&, const ReluMatrices<const double>&, double*, int);
template void basis_weights(const ReluBasis&, const float*, const std::vector<float>&,
                            const ReluMatrices<float>&, int);
template void basis_weights(const ReluBasis&, const double*, const std::vector<double>&,
                            const ReluMatrices<double>&, int);

}  // namespace attn
