#include "train/path_optimizer.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace attn::train {
namespace {

// Calls body(place in (heads·d, width), place in (heads, width, d)) for every number of a layer.
template <class Body>
void for_each_weight(const MatrixPlace& place, Index heads, const Body& body) {
  const Index depth = place.rows / heads;
  for (Index h = 0; h < heads; ++h) {
    for (Index c = 0; c < depth; ++c) {
      for (Index i = 0; i < place.cols; ++i) {
        body((h * depth + c) * place.cols + i, (h * place.cols + i) * depth + c);
      }
    }
  }
}

// Row (h·d + c) mod width, for both matrices.
std::vector<Skeleton> across_heads(const PathLayer& layer) {
  const Index depth = layer.wq.rows / layer.heads;
  std::vector<Skeleton> skeletons(static_cast<std::size_t>(layer.heads));
  for (Index n = 0; n < layer.wq.rows; ++n) {
    Skeleton& skeleton = skeletons[static_cast<std::size_t>(n / depth)];
    skeleton.q.push_back(n % layer.wq.cols);
    skeleton.k.push_back(n % layer.wq.cols);
  }
  return skeletons;
}

// The numbers of one moment.
Index moments_of(const PathLayer& layer) { return layer.wq.rows * (2 * layer.wq.cols - 1); }

template <class T>
PathPlan<T> plan_of(const PathLayer& layer, int threads) {
  return PathPlan<T>({layer.heads, layer.wq.cols, layer.wq.rows / layer.heads}, threads);
}

}  // namespace

template <class T>
PathOptimizer<T>::PathOptimizer(std::vector<PathLayer> layers, const OptimizerOptions& options,
                                int threads)
    : layers_(std::move(layers)), options_(options) {
  Index moments = 0;
  for (const PathLayer& layer : layers_) {
    const Index size = layer.wq.rows * layer.wq.cols;
    kept_.push_back(
        {plan_of<T>(layer, threads), across_heads(layer), Pair(size), Pair(size), moments});
    moments += moments_of(layer);
  }
  if (moments_kept(options) > 0) first_ = Buffer<T>(moments);
  if (moments_kept(options) > 1) second_ = Buffer<T>(moments);
  for (Buffer<T>* const moment : this->moments()) std::fill(moment->begin(), moment->end(), T{0});
}

template <class T>
std::vector<Buffer<T>*> PathOptimizer<T>::moments() {
  std::vector<Buffer<T>*> kept;
  for (Buffer<T>* const one : {&first_, &second_}) {
    if (one->data() != nullptr) kept.push_back(one);
  }
  return kept;
}

template <class T>
void PathOptimizer<T>::read(std::size_t layer, const T* flat, Pair& pair) const {
  const PathLayer& of = layers_[layer];
  for_each_weight(of.wq, of.heads, [&](Index from, Index to) {
    pair.wq[to] = flat[of.wq.offset + from];
    pair.wk[to] = flat[of.wk.offset + from];
  });
}

template <class T>
PathWeights<T> PathOptimizer<T>::views(const Layer& layer, const Pair& pair) const {
  return {{pair.wq.data(), layer.plan.weights_shape()},
          {pair.wk.data(), layer.plan.weights_shape()}};
}

template <class T>
double PathOptimizer<T>::squared_gradients(const T* weights, const T* gradients) {
  double total = 0;
  for (std::size_t n = 0; n < layers_.size(); ++n) {
    Layer& layer = kept_[n];
    read(n, weights, layer.weights);
    read(n, gradients, layer.gradients);
    for (const double sum : layer.plan.squared_gradients(
             layer.skeletons, views(layer, layer.gradients), views(layer, layer.weights))) {
      total += sum;
    }
  }
  return total;
}

template <class T>
PathOutcome PathOptimizer<T>::step(Index number, double rate, double factor, T* weights,
                                   const T* gradients) {
  StepOptions options;
  const bool adam = options_.rule == Rule::adam;
  options.optimizer = adam ? attn::Optimizer::si_adam : attn::Optimizer::si_sgd;
  options.rate = rate;
  options.beta1 = options_.beta1;
  options.beta2 = options_.beta2;
  options.epsilon = options_.epsilon;
  options.number = number;
  options.gradient_factor = factor;
  options.momentum = adam ? 0 : options_.momentum;
  options.decay = options_.decay;
  options.min_ratio = options_.min_ratio;
  PathOutcome outcome{
      std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity(), {}};
  for (std::size_t n = 0; n < layers_.size(); ++n) {
    Layer& layer = kept_[n];
    const PathLayer& of = layers_[n];
    read(n, weights, layer.weights);
    read(n, gradients, layer.gradients);
    const Shape shape = layer.plan.moments_shape(options.optimizer);
    PathMoments<T> moments;
    if (first_.data() != nullptr) moments.first = {first_.data() + layer.moments_at, shape};
    if (second_.data() != nullptr) moments.second = {second_.data() + layer.moments_at, shape};
    const std::vector<StepSummary> heads =
        layer.plan.step(options, layer.skeletons, views(layer, layer.gradients),
                        views(layer, layer.weights), moments);
    for_each_weight(of.wq, of.heads, [&](Index to, Index from) {
      weights[of.wq.offset + to] = layer.weights.wq[from];
      weights[of.wk.offset + to] = layer.weights.wk[from];
    });
    for (std::size_t h = 0; h < heads.size(); ++h) {
      outcome.least_ratio = std::min(outcome.least_ratio, heads[h].least_ratio);
      outcome.largest_ratio = std::max(outcome.largest_ratio, heads[h].largest_ratio);
      for (const SingularColumn& one : heads[h].singular) {
        outcome.singular.push_back({n, static_cast<Index>(h), one.col, one.ratio});
      }
    }
  }
  return outcome;
}

template <class T>
std::int64_t PathOptimizer<T>::bytes(const std::vector<PathLayer>& layers,
                                     const OptimizerOptions& options) {
  Index numbers = 0;
  std::int64_t of_plans = 0;
  for (const PathLayer& layer : layers) {
    numbers += 4 * layer.wq.rows * layer.wq.cols + moments_kept(options) * moments_of(layer);
    of_plans += plan_of<T>(layer, 1).workspace_bytes();
  }
  return numbers * static_cast<Index>(sizeof(T)) + of_plans;
}

template class PathOptimizer<float>;
template class PathOptimizer<double>;

}  // namespace attn::train
