#include "paths/relu_step.hpp"

#include <algorithm>
#include <cmath>

#include "kernel/parallel.hpp"

namespace attn {
namespace {

template <class T>
class ReluStep {
 public:
  ReluStep(double rate, double min_ratio, const ReluBasis& basis, const ReluMatrices<T>& weights,
           const ReluMatrices<const T>& gradients, int threads)
      : rate_(rate),
        min_ratio_(min_ratio),
        basis_(basis),
        layers_(basis.layers()),
        weights_(weights),
        gradients_(gradients),
        threads_(threads),
        products_(basis, ReluMatrices<const T>(weights.begin(), weights.end())),
        rest_(static_cast<std::size_t>(layers_.nodes()), 0),
        ratio_(static_cast<std::size_t>(layers_.nodes()), 1) {}

  ReluStepSummary run() {
    for (Index l = layers_.count() - 1; l > 0; --l) find_rest(l);
    for (Index l = 1; l < layers_.count(); ++l) {
      find_ratios(l);
      compare_sums(l);
    }
    if (!summary_.singular.empty()) return std::move(summary_);
    for (Index l = 1; l <= layers_.count(); ++l) move_weights(l);
    return std::move(summary_);
  }

 private:
  std::size_t at(Index layer, Index node) const {
    return static_cast<std::size_t>(layers_.node(layer, node));
  }

  const MatrixView<T>& weights(Index layer) const {
    return weights_[static_cast<std::size_t>(layer - 1)];
  }

  double gradient(Index layer, Index a, Index b) const {
    return gradients_[static_cast<std::size_t>(layer - 1)](a, b);
  }

  // W ∂L/∂W
  double flow(Index layer, Index a, Index b) const {
    return gradient(layer, a, b) * weights(layer)(a, b);
  }

  // r of the nodes of a layer.
  void find_rest(Index l) {
    kernel::parallel_for(layers_.size(l), threads_, [&](Index b, int) {
      const Index s = basis_.out_of(l, b);
      double sum = basis_.is_in(l + 1, b, s) ? rest_[at(l + 1, s)] : 0;
      for (Index c = 0; c < layers_.size(l + 1); ++c) {
        if (c != s) sum += flow(l + 1, b, c);
      }
      rest_[at(l, b)] = sum;
    });
  }

  void find_ratios(Index l) {
    for (Index b = 0; b < layers_.size(l); ++b) {
      const Index a = basis_.in_of(l, b);
      double& ratio = ratio_[at(l, b)];
      if (basis_.is_out(l, a, b)) {
        ratio = ratio_[at(l - 1, a)];  // the same path
      } else {
        const double value = products_.into[at(l, b)] * products_.onward[at(l, b)];
        // Not 1 − 0/0 or 1 − x/value²: the square may be out of range.
        ratio = 1 - rate_ * (flow(l, a, b) - rest_[at(l, b)]) / value / value;
      }
      summary_.least_ratio = std::min(summary_.least_ratio, ratio);
      summary_.largest_ratio = std::max(summary_.largest_ratio, ratio);
      if (ratio >= min_ratio_ && std::isfinite(ratio)) continue;
      summary_.singular.push_back({l, b, ratio});
    }
  }

  void compare_sums(Index l) {
    const auto nodes = static_cast<std::size_t>(layers_.size(l));
    PooledVector<double> difference(nodes, 0);
    PooledVector<double> size(nodes, 0);
    for (Index a = 0; a < layers_.size(l - 1); ++a) {
      for (std::size_t b = 0; b < nodes; ++b) {
        const double into = flow(l, a, static_cast<Index>(b));
        difference[b] += into;
        size[b] += std::abs(into);
      }
    }
    for (std::size_t b = 0; b < nodes; ++b) {
      for (Index c = 0; c < layers_.size(l + 1); ++c) {
        const double out = flow(l + 1, static_cast<Index>(b), c);
        difference[b] -= out;
        size[b] += std::abs(out);
      }
      if (size[b] == 0) continue;
      summary_.inconsistency = std::max(summary_.inconsistency, std::abs(difference[b]) / size[b]);
    }
  }

  void move_weights(Index l) {
    const MatrixView<T>& w = weights(l);
    kernel::parallel_for(w.rows, threads_, [&](Index a, int) {
      const double into = products_.into[at(l - 1, a)];
      for (Index b = 0; b < w.cols; ++b) {
        if (basis_.is_in(l, a, b)) continue;
        const double ratio = ratio_[at(l, b)];
        if (basis_.is_out(l, a, b)) {
          w(a, b) = static_cast<T>(w(a, b) * ratio_[at(l - 1, a)] / ratio);
        } else {
          const double factor = into * products_.onward[at(l, b)];
          const double by = rate_ * gradient(l, a, b) / factor / factor;
          w(a, b) = static_cast<T>((w(a, b) - by) / ratio);
        }
      }
    });
  }

  double rate_;
  double min_ratio_;
  const ReluBasis& basis_;
  const ReluLayers& layers_;
  const ReluMatrices<T>& weights_;
  const ReluMatrices<const T>& gradients_;
  int threads_;
  ReluProducts products_;
  PooledVector<double> rest_;
  PooledVector<double> ratio_;
  ReluStepSummary summary_;
};

}  // namespace

template <class T>
ReluStepSummary step(double rate, double min_ratio, const ReluBasis& basis,
                     const ReluMatrices<T>& weights, const ReluMatrices<const T>& gradients,
                     int threads) {
  return ReluStep<T>(rate, min_ratio, basis, weights, gradients, threads).run();
}

template ReluStepSummary step(double, double, const ReluBasis&, const ReluMatrices<float>&,
                              const ReluMatrices<const float>&, int);
template ReluStepSummary step(double, double, const ReluBasis&, const ReluMatrices<double>&,
                              const ReluMatrices<const double>&, int);

}  // namespace attn
