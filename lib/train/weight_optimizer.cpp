#include "train/weight_optimizer.hpp"

#include <algorithm>
#include <cmath>

#include "attnkit/error.hpp"
#include "parallel/parallel_for.hpp"
#include "train/adam_moments.hpp"

namespace attn::train {
namespace {

// Numbers that a thread treats at a time; fixed, so that the bits of sums are fixed, too.
constexpr Index numbers_per_piece = 16384;

// Calls body(first, count) for the pieces of an array.
template <class Body>
void for_pieces(Index size, int threads, const Body& body) {
  const Index pieces = (size + numbers_per_piece - 1) / numbers_per_piece;
  parallel_for(pieces, threads, [&](Index piece, int) {
    const Index first = piece * numbers_per_piece;
    body(first, std::min(numbers_per_piece, size - first));
  });
}

}  // namespace

template <class T>
WeightOptimizer<T>::WeightOptimizer(const Parameters& parameters, const OptimizerOptions& options,
                                    const std::vector<PathLayer>& in_paths, int threads)
    : size_(parameters.size()), options_(options), threads_(threads) {
  if (!in_paths.empty()) {
    if (options.rule == Rule::lamb) throw Error(Failure::usage, "lamb does not step in paths");
    in_paths_.emplace(in_paths, options, threads);
  }
  for (const Parameter& one : parameters.all()) {
    const bool elsewhere =
        std::any_of(in_paths.begin(), in_paths.end(), [&](const PathLayer& layer) {
          return layer.wq.offset == one.offset || layer.wk.offset == one.offset;
        });
    if (!elsewhere) plain_.push_back(one);
  }
  const Index moments = moments_kept(options);
  if (moments > 0) first_ = Buffer<T>(size_);
  if (moments > 1) second_ = Buffer<T>(size_);
  for (T* const moment : this->moments()) std::fill_n(moment, size_, T{0});
}

template <class T>
std::vector<T*> WeightOptimizer<T>::moments() {
  std::vector<T*> kept;
  for (const Buffer<T>* const one : {&first_, &second_}) {
    if (one->data() != nullptr) kept.push_back(one->data());
  }
  return kept;
}

template <class T>
double WeightOptimizer<T>::squares_of(const T* numbers, Index count) const {
  std::vector<double> sums(
      static_cast<std::size_t>((count + numbers_per_piece - 1) / numbers_per_piece));
  for_pieces(count, threads_, [&](Index first, Index length) {
    double sum = 0;
    for (Index n = first; n < first + length; ++n) {
      const double x = static_cast<double>(numbers[n]);
      sum += x * x;
    }
    sums[static_cast<std::size_t>(first / numbers_per_piece)] = sum;
  });
  double total = 0;
  for (const double sum : sums) total += sum;
  return total;
}

template <class T>
typename WeightOptimizer<T>::Outcome WeightOptimizer<T>::step(Index number, double rate, T* weights,
                                                              T* gradients) {
  double squares = 0;
  for (const Parameter& one : plain_) squares += squares_of(gradients + one.offset, one.size());
  if (in_paths_) squares += in_paths_->squared_gradients(weights, gradients);
  Outcome outcome;
  outcome.gradient_norm = std::sqrt(squares);
  const bool clips = options_.clip > 0 && outcome.gradient_norm > options_.clip;
  const double factor = clips ? options_.clip / outcome.gradient_norm : 1;
  if (in_paths_) outcome.paths = in_paths_->step(number, rate, factor, weights, gradients);
  for (const Parameter& one : plain_) {
    T* const w = weights + one.offset;
    T* const g = gradients + one.offset;
    if (clips) {
      for_pieces(one.size(), threads_, [&](Index first, Index count) {
        for (Index n = first; n < first + count; ++n) g[n] *= static_cast<T>(factor);
      });
    }
    switch (options_.rule) {
      case Rule::sgd:
        sgd(one, rate, w, g);
        break;
      case Rule::adam:
        adam(one, number, rate, w, g);
        break;
      case Rule::lamb:
        lamb(one, number, rate, w, g);
        break;
    }
  }
  return outcome;
}

template <class T>
void WeightOptimizer<T>::sgd(const Parameter& one, double rate, T* w, T* g) {
  const T decay = one.decays ? static_cast<T>(options_.decay) : T{0};
  const T momentum = static_cast<T>(options_.momentum);
  const T eta = static_cast<T>(rate);
  T* const m = momentum == 0 ? nullptr : first_.data() + one.offset;
  for_pieces(one.size(), threads_, [&](Index first, Index count) {
    for (Index n = first; n < first + count; ++n) {
      if (decay != 0) g[n] += decay * w[n];
      if (m != nullptr) {
        m[n] = momentum * m[n] + g[n];
        w[n] -= eta * m[n];
      } else {
        w[n] -= eta * g[n];
      }
    }
  });
}

template <class T>
void WeightOptimizer<T>::adam(const Parameter& one, Index number, double rate, T* w, const T* g) {
  const AdamMoments<T> moments(first_.data() + one.offset, second_.data() + one.offset, options_,
                               number);
  const T keep = static_cast<T>(1 - (one.decays ? rate * options_.decay : 0));
  const T eta = static_cast<T>(rate);
  for_pieces(one.size(), threads_, [&](Index first, Index count) {
    for (Index n = first; n < first + count; ++n) {
      w[n] = keep * w[n] - eta * moments.direction(n, g[n]);
    }
  });
}

template <class T>
void WeightOptimizer<T>::lamb(const Parameter& one, Index number, double rate, T* w, T* g) {
  const AdamMoments<T> moments(first_.data() + one.offset, second_.data() + one.offset, options_,
                               number);
  const T decay = one.decays ? static_cast<T>(options_.decay) : T{0};
  for_pieces(one.size(), threads_, [&](Index first, Index count) {
    for (Index n = first; n < first + count; ++n) {
      g[n] = moments.direction(n, g[n]) + decay * w[n];
    }
  });
  const double weight_norm = std::sqrt(squares_of(w, one.size()));
  const double step_norm = std::sqrt(squares_of(g, one.size()));
  const double trust = weight_norm > 0 && step_norm > 0 ? weight_norm / step_norm : 1;
  const T eta = static_cast<T>(rate * trust);
  for_pieces(one.size(), threads_, [&](Index first, Index count) {
    for (Index n = first; n < first + count; ++n) w[n] -= eta * g[n];
  });
}

template <class T>
std::int64_t WeightOptimizer<T>::bytes(const Parameters& parameters,
                                       const OptimizerOptions& options,
                                       const std::vector<PathLayer>& in_paths) {
  return moments_kept(options) * parameters.size() * static_cast<Index>(sizeof(T)) +
         PathOptimizer<T>::bytes(in_paths, options);
}

template class WeightOptimizer<float>;
template class WeightOptimizer<double>;

}  // namespace attn::train
