#include "paths/relu_layers.hpp"

#include <cmath>
#include <utility>

#include "parallel/parallel_for.hpp"
#include "tensor/pooled_vector.hpp"

namespace attn {
namespace {

// The node of the layer before each node at which |value · weight| is largest, and that product.
struct LargestStep {
  std::vector<Index> from;
  PooledVector<double> value;
};

// `transposed`: from the nodes after, through the same weights.
template <class T>
LargestStep largest_step(MatrixView<const T> w, const PooledVector<double>& value,
                         bool transposed) {
  const Index count = transposed ? w.rows : w.cols;
  LargestStep step;
  step.from.assign(static_cast<std::size_t>(count), 0);
  step.value.assign(static_cast<std::size_t>(count), -1);
  for (Index i = 0; i < w.rows; ++i) {
    for (Index j = 0; j < w.cols; ++j) {
      const auto to = static_cast<std::size_t>(transposed ? i : j);
      const Index from = transposed ? j : i;
      const double size =
          std::abs(static_cast<double>(w(i, j))) * value[static_cast<std::size_t>(from)];
      if (size > step.value[to]) {
        step.value[to] = size;
        step.from[to] = from;
      }
    }
  }
  return step;
}

}  // namespace

ReluLayers::ReluLayers(std::vector<Index> sizes) : sizes_(std::move(sizes)), first_node_{0} {
  for (const Index size : sizes_) first_node_.push_back(first_node_.back() + size);
  for (Index l = 1; l <= count(); ++l) weights_ += size(l - 1) * size(l);
}

std::optional<Index> ReluLayers::path_count() const {
  Index paths = 1;
  for (const Index size : sizes_) {
    if (__builtin_mul_overflow(paths, size, &paths)) return std::nullopt;
  }
  return paths;
}

ReluSkeleton cyclic_skeleton(const ReluLayers& layers) {
  ReluSkeleton skeleton;
  for (Index l = 1; l < layers.count(); ++l) {
    for (Index b = 0; b < layers.size(l); ++b) {
      skeleton.in.push_back(b % layers.size(l - 1));
      skeleton.out.push_back(b % layers.size(l + 1));
    }
  }
  return skeleton;
}

template <class T>
ReluSkeleton largest_skeleton(const ReluLayers& layers, const ReluMatrices<const T>& weights) {
  ReluSkeleton skeleton;
  LargestStep step;
  step.value.assign(static_cast<std::size_t>(layers.size(0)), 1);
  for (Index l = 1; l < layers.count(); ++l) {
    step = largest_step(weights[static_cast<std::size_t>(l - 1)], step.value, false);
    skeleton.in.insert(skeleton.in.end(), step.from.begin(), step.from.end());
  }
  step.value.assign(static_cast<std::size_t>(layers.size(layers.count())), 1);
  for (Index l = layers.count() - 1; l > 0; --l) {
    step = largest_step(weights[static_cast<std::size_t>(l)], step.value, true);
    skeleton.out.insert(skeleton.out.begin(), step.from.begin(), step.from.end());
  }
  return skeleton;
}

template <class T>
std::optional<ZeroReluWeight> zero_in_skeleton(const ReluLayers& layers,
                                               const ReluSkeleton& skeleton,
                                               const ReluMatrices<const T>& weights) {
  for (Index l = 1; l < layers.count(); ++l) {
    const MatrixView<const T>& into = weights[static_cast<std::size_t>(l - 1)];
    const MatrixView<const T>& out = weights[static_cast<std::size_t>(l)];
    for (Index b = 0; b < layers.size(l); ++b) {
      const Index from = skeleton.in_of(layers.hidden_node(l, b));
      if (into(from, b) == 0) return ZeroReluWeight{l, from, b};
    }
    for (Index b = 0; b < layers.size(l); ++b) {
      const Index to = skeleton.out_of(layers.hidden_node(l, b));
      if (out(b, to) == 0) return ZeroReluWeight{l + 1, b, to};
    }
  }
  return std::nullopt;
}

template <class T>
void rescale_nodes(const ReluLayers& layers, const std::vector<T>& factors, bool of_gradients,
                   const ReluMatrices<T>& weights, int threads) {
  const auto factor = [&](Index layer, Index node) {
    if (layer == 0 || layer == layers.count()) return T{1};
    return factors[static_cast<std::size_t>(layers.hidden_node(layer, node))];
  };
  for (Index l = 1; l <= layers.count(); ++l) {
    const MatrixView<T>& w = weights[static_cast<std::size_t>(l - 1)];
    parallel_for(w.rows, threads, [&](Index a, int) {
      const T before = factor(l - 1, a);
      for (Index b = 0; b < w.cols; ++b) {
        const T after = factor(l, b);
        w(a, b) = of_gradients ? w(a, b) / after * before : w(a, b) * after / before;
      }
    });
  }
}

template ReluSkeleton largest_skeleton(const ReluLayers&, const ReluMatrices<const float>&);
template ReluSkeleton largest_skeleton(const ReluLayers&, const ReluMatrices<const double>&);
template std::optional<ZeroReluWeight> zero_in_skeleton(const ReluLayers&, const ReluSkeleton&,
                                                        const ReluMatrices<const float>&);
template std::optional<ZeroReluWeight> zero_in_skeleton(const ReluLayers&, const ReluSkeleton&,
                                                        const ReluMatrices<const double>&);
template void rescale_nodes(const ReluLayers&, const std::vector<float>&, bool,
                            const ReluMatrices<float>&, int);
template void rescale_nodes(const ReluLayers&, const std::vector<double>&, bool,
                            const ReluMatrices<double>&, int);

}  // namespace attn
