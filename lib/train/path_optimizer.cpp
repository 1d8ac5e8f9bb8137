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

// W_Q, W_K and their gradients: (heads, width, d).
Shape shape_of(const PathLayer& layer) {
  return {layer.heads, layer.wq.cols, layer.wq.rows / layer.heads};
}

StepOptions step_options(const OptimizerOptions& given) {
  const bool adam = given.rule == Rule::adam;
  StepOptions options;
  options.optimizer = adam ? attn::Optimizer::si_adam : attn::Optimizer::si_sgd;
  options.beta1 = given.beta1;
  options.beta2 = given.beta2;
  options.epsilon = given.epsilon;
  options.momentum = adam ? 0 : given.momentum;
  options.decay = given.decay;
  options.min_ratio = given.min_ratio;
  return options;
}

template <class T>
PathPlan<T> plan_of(const PathLayer& layer, const OptimizerOptions& options, int threads) {
  const Shape shape = shape_of(layer);
  return PathPlan<T>({shape, shape, shape, shape}, step_options(options), threads);
}

}  // namespace

template <class T>
PathOptimizer<T>::PathOptimizer(std::vector<PathLayer> layers, const OptimizerOptions& options,
                                int threads)
    : layers_(std::move(layers)), options_(options) {
  Index moments = 0;
  for (const PathLayer& layer : layers_) {
    const Index size = layer.wq.rows * layer.wq.cols;
    Layer& kept = kept_.emplace_back(
        Layer{plan_of<T>(layer, options, threads), Pair(size), Pair(size), {}, moments});
    const Shape shape = shape_of(layer);
    kept.in = {{kept.weights.wq.data(), shape},
               {kept.weights.wk.data(), shape},
               {kept.gradients.wq.data(), shape},
               {kept.gradients.wk.data(), shape},
               across_heads(layer)};
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
double PathOptimizer<T>::squared_gradients(const T* weights, const T* gradients) {
  double total = 0;
  for (std::size_t n = 0; n < layers_.size(); ++n) {
    Layer& layer = kept_[n];
    read(n, weights, layer.weights);
    read(n, gradients, layer.gradients);
    std::vector<double> by_head(static_cast<std::size_t>(layers_[n].heads));
    layer.plan.run(layer.in, {.squared_gradient = {by_head.data(), layer.plan.leading()}});
    for (const double sum : by_head) total += sum;
  }
  return total;
}

template <class T>
PathOutcome PathOptimizer<T>::step(Index number, double rate, double factor, T* weights,
                                   const T* gradients) {
  PathOutcome outcome{
      std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity(), {}};
  for (std::size_t n = 0; n < layers_.size(); ++n) {
    Layer& layer = kept_[n];
    const PathLayer& of = layers_[n];
    read(n, weights, layer.weights);
    read(n, gradients, layer.gradients);
    PathOutputs<T> out;
    out.wq = {layer.weights.wq.data(), layer.plan.weights_shape()};
    out.wk = {layer.weights.wk.data(), layer.plan.weights_shape()};
    const Shape shape = layer.plan.moments_shape();
    if (first_.data() != nullptr) out.first_moment = {first_.data() + layer.moments_at, shape};
    if (second_.data() != nullptr) out.second_moment = {second_.data() + layer.moments_at, shape};
    layer.plan.set_step(number, rate, factor);
    const std::vector<StepSummary> heads = layer.plan.run(layer.in, out);
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
    of_plans += plan_of<T>(layer, options, 1).workspace_bytes();
  }
  return numbers * static_cast<Index>(sizeof(T)) + of_plans;
}

template class PathOptimizer<float>;
template class PathOptimizer<double>;

}  // namespace attn::train
