#include "paths/relu_step.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "parallel/parallel_for.hpp"
#include "paths/adam_step.hpp"
#include "paths/descent_step.hpp"
#include "paths/step.hpp"

namespace attn {
namespace {

// The steps u of basis paths, or of weights, with these values, for gradients
// numerator/denominator: rate times the gradients, or by another rule.
struct PlainDescent {
  double rate;
  double operator()(Index /*path*/, double numerator, double denominator, double /*value*/) const {
    return rate * numerator / denominator;
  }
};

template <class Rule>
struct StepOf {
  Rule rule;
  double operator()(Index path, double numerator, double denominator, double value) const {
    return rule(0, path, numerator / denominator, value);
  }
};

template <class T, class Update>
class ReluStep {
 public:
  ReluStep(const StepOptions& options, const ReluBasis& basis, const ReluStepMatrices<T>& matrices,
           const Update& update, int threads)
      : options_(options),
        basis_(basis),
        layers_(basis.layers()),
        m_(matrices),
        update_(update),
        threads_(threads),
        products_(basis, ReluMatrices<const T>(m_.weights.begin(), m_.weights.end())),
        rest_(static_cast<std::size_t>(layers_.nodes()), 0),
        wanted_(static_cast<std::size_t>(layers_.nodes()), 1),
        ratio_(static_cast<std::size_t>(layers_.nodes()), 1) {}

  ReluStepSummary run() {
    for (Index l = 1; l < layers_.count(); ++l) find_valueless(l);
    if (!summary_.singular.empty()) return std::move(summary_);
    for (Index l = layers_.count() - 1; l > 0; --l) find_rest(l);
    for (Index l = 1; l < layers_.count(); ++l) {
      find_ratios(l);
      compare_sums(l);
    }
    for (Index l = 1; l <= layers_.count(); ++l) move_weights(l);
    return std::move(summary_);
  }

 private:
  std::size_t at(Index layer, Index node) const {
    return static_cast<std::size_t>(layers_.node(layer, node));
  }

  const MatrixView<T>& weights(Index layer) const {
    return m_.weights[static_cast<std::size_t>(layer - 1)];
  }

  double gradient(Index layer, Index a, Index b) const {
    return m_.gradients[static_cast<std::size_t>(layer - 1)](a, b);
  }

  // W ∂L/∂W
  double flow(Index layer, Index a, Index b) const {
    return gradient(layer, a, b) * weights(layer)(a, b);
  }

  // r of the nodes of a layer.
  void find_rest(Index l) {
    parallel_for(layers_.size(l), threads_, [&](Index b, int) {
      const Index s = basis_.out_of(l, b);
      double sum = basis_.is_in(l + 1, b, s) ? rest_[at(l + 1, s)] : 0;
      for (Index c = 0; c < layers_.size(l + 1); ++c) {
        if (c != s) sum += flow(l + 1, b, c);
      }
      rest_[at(l, b)] = sum;
    });
  }

  // The value of the skeleton's path through a node.
  double value(Index l, Index b) const {
    return products_.into[at(l, b)] * products_.onward[at(l, b)];
  }

  void find_valueless(Index l) {
    for (Index b = 0; b < layers_.size(l); ++b) {
      if (value(l, b) != 0 && std::isfinite(value(l, b))) continue;
      summary_.singular.push_back({l, b, std::numeric_limits<double>::quiet_NaN()});
    }
  }

  void find_ratios(Index l) {
    for (Index b = 0; b < layers_.size(l); ++b) {
      const Index a = basis_.in_of(l, b);
      if (basis_.is_out(l, a, b)) {  // the same path
        wanted_[at(l, b)] = wanted_[at(l - 1, a)];
        ratio_[at(l, b)] = ratio_[at(l - 1, a)];
      } else {
        find_ratio(l, a, b);
      }
      const double wanted = wanted_[at(l, b)];
      summary_.least_ratio = std::min(summary_.least_ratio, wanted);
      summary_.largest_ratio = std::max(summary_.largest_ratio, wanted);
      if (!is_regular(wanted)) summary_.singular.push_back({l, b, wanted});
    }
  }

  bool is_regular(double ratio) const {
    return ratio >= options_.min_ratio && std::isfinite(ratio);
  }

  void find_ratio(Index l, Index a, Index b) {
    const Index path = basis_.number(l, a, b);
    const KeptMoment<T> first(m_.first_moment, 0, path);
    const KeptMoment<T> second(m_.second_moment, 0, path);
    // Not 1 − 0/0 or 1 − x/value²: the square may be out of range.
    const double of_path = value(l, b);
    const double wanted =
        1 - update_(path, flow(l, a, b) - rest_[at(l, b)], of_path, of_path) / of_path;
    wanted_[at(l, b)] = wanted;
    double& ratio = ratio_[at(l, b)];
    ratio = wanted;
    if (is_regular(wanted)) return;
    if (options_.clips && std::isfinite(wanted)) {
      ratio = options_.min_ratio;
      return;
    }
    ratio = 1;
    first.restore();
    second.restore();
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
    parallel_for(w.rows, threads_, [&](Index a, int) {
      const double into = products_.into[at(l - 1, a)];
      for (Index b = 0; b < w.cols; ++b) {
        if (basis_.is_in(l, a, b)) continue;
        const double ratio = ratio_[at(l, b)];
        if (basis_.is_out(l, a, b)) {
          w(a, b) = static_cast<T>(w(a, b) * ratio_[at(l - 1, a)] / ratio);
        } else {
          const double factor = into * products_.onward[at(l, b)];
          const double by =
              update_(basis_.number(l, a, b), gradient(l, a, b), factor, factor * w(a, b)) / factor;
          w(a, b) = static_cast<T>((w(a, b) - by) / ratio);
        }
      }
    });
  }

  const StepOptions& options_;
  const ReluBasis& basis_;
  const ReluLayers& layers_;
  const ReluStepMatrices<T>& m_;
  const Update& update_;
  int threads_;
  ReluProducts products_;
  PooledVector<double> rest_;
  PooledVector<double> wanted_;  // R by node, as the step requests it
  PooledVector<double> ratio_;   // R by node, as applied
  ReluStepSummary summary_;
};

template <class T, class Update>
void step_weights(const ReluStepMatrices<T>& matrices, const Update& update, int threads) {
  Index before = 0;  // weights of the matrices before
  for (std::size_t l = 0; l < matrices.weights.size(); ++l) {
    const MatrixView<T>& w = matrices.weights[l];
    const MatrixView<const T>& gradients = matrices.gradients[l];
    parallel_for(w.rows, threads, [&](Index a, int) {
      for (Index b = 0; b < w.cols; ++b) {
        const double value = w(a, b);
        w(a, b) =
            static_cast<T>(value - update(before + a * w.cols + b, gradients(a, b), 1, value));
      }
    });
    before += w.rows * w.cols;
  }
}

template <class T, class Update>
ReluStepSummary step_by(const StepOptions& options, const ReluLayers& layers,
                        const ReluSkeleton& skeleton, const ReluStepMatrices<T>& matrices,
                        const Update& update, int threads) {
  if (steps_in_paths(options.optimizer)) {
    const ReluBasis basis(layers, skeleton);
    return ReluStep<T, Update>(options, basis, matrices, update, threads).run();
  }
  step_weights(matrices, update, threads);
  return {};
}

}  // namespace

template <class T>
ReluStepSummary step(const StepOptions& options, const ReluLayers& layers,
                     const ReluSkeleton& skeleton, const ReluStepMatrices<T>& matrices,
                     int threads) {
  const auto by = [&](const auto& update) {
    return step_by(options, layers, skeleton, matrices, update, threads);
  };
  if (keeps_moments(options.optimizer)) {
    return by(StepOf<AdamStep<T>>{{options, matrices.first_moment, matrices.second_moment}});
  }
  const bool plain = options.gradient_factor == 1 && options.momentum == 0 && options.decay == 0;
  if (plain) return by(PlainDescent{options.rate});
  return by(StepOf<DescentStep<T>>{{options, matrices.first_moment}});
}

template ReluStepSummary step(const StepOptions&, const ReluLayers&, const ReluSkeleton&,
                              const ReluStepMatrices<float>&, int);
template ReluStepSummary step(const StepOptions&, const ReluLayers&, const ReluSkeleton&,
                              const ReluStepMatrices<double>&, int);

}  // namespace attn
