#include "train/path_start.hpp"

#include <cmath>

#include "tensor/random.hpp"

namespace attn::train {
namespace {

constexpr double least_factor = 0.5;
constexpr double largest_factor = 3;
constexpr int largest_power = 3;

// From two uniform numbers.
double start_factor(StartFactors kind, double size, double sign) {
  const double factor =
      kind == StartFactors::powers
          ? std::ldexp(1.0, static_cast<int>(size * (2 * largest_power + 1)) - largest_power)
          : least_factor + size * (largest_factor - least_factor);
  return sign < 0.5 ? -factor : factor;
}

}  // namespace

template <class T>
void set_skeletons_to_one(const std::vector<PathLayer>& layers, T* weights) {
  for (const PathLayer& layer : layers) {
    for (Index n = 0; n < layer.wq.rows; ++n) {
      layer.wq.in(weights)(n, n % layer.wq.cols) = 1;
      layer.wk.in(weights)(n, n % layer.wk.cols) = 1;
    }
  }
}

template <class T>
void rescale_start(const std::vector<PathLayer>& layers, StartFactors kind, std::uint64_t seed,
                   T* weights) {
  for (const PathLayer& layer : layers) {
    const RandomStream stream(seed, layer.name + "/rescaled start");
    for (Index n = 0; n < layer.wq.rows; ++n) {
      double draws[2];
      stream.uniform(2 * n, 2, draws);
      const T factor = static_cast<T>(start_factor(kind, draws[0], draws[1]));
      T* const q = layer.wq.in(weights).row(n);
      T* const k = layer.wk.in(weights).row(n);
      for (Index i = 0; i < layer.wq.cols; ++i) q[i] *= factor;
      for (Index i = 0; i < layer.wk.cols; ++i) k[i] /= factor;
    }
  }
}

#define ATTN_PATH_START(T)                                               \
  template void set_skeletons_to_one(const std::vector<PathLayer>&, T*); \
  template void rescale_start(const std::vector<PathLayer>&, StartFactors, std::uint64_t, T*);
ATTN_PATH_START(float)
ATTN_PATH_START(double)
#undef ATTN_PATH_START

}  // namespace attn::train
