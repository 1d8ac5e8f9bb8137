#include "collapse/self_attention.hpp"

#include <optional>

#include "attnkit/error.hpp"
#include "kernel/eigen_map.hpp"
#include "pass/output.hpp"
#include "scheme/log_likelihood.hpp"

namespace attn::collapse {

template <class T>
SelfAttentionOutcome attend_to_each_other(MatrixView<const T> points, const SelfAttention& options,
                                          MatrixView<T> next, int threads) {
  const auto energy = make_product_energy<T>(options.energy, points, points, options.scale);
  typename Scores<T>::Terms terms;
  terms.energy = energy.get();
  const Scores<T> scores(terms);
  ObserverList<T> observers;
  std::optional<Output<T>> output;
  if (next.data != nullptr) observers.push_back(&output.emplace(points, next));
  const Attention found = attend<T>(scores, options.scheme, observers, threads);
  SelfAttentionOutcome outcome{found.summary, std::nullopt};
  if (options.energy == EnergyKind::gaussian) {
    outcome.log_likelihood =
        gaussian_log_likelihood(scores, points.cols, options.scale, options.scheme, found);
  }
  if (next.data == nullptr) return outcome;
  auto moved = kernel::eigen_map(next);
  if (options.residual) moved += kernel::eigen_map(points);
  if (!moved.allFinite()) {
    throw Error(Failure::numerical, "a point grows beyond the format",
                sizeof(T) == sizeof(float) ? Remedy::float64 : Remedy::none);
  }
  return outcome;
}

std::int64_t self_attention_bytes(const SelfAttention& options, Index points, Index dimension,
                                  std::size_t element_size, int threads) {
  const Scheme scheme = options.scheme.scheme;
  return product_energy_bytes(options.energy, points, points, dimension, element_size) +
         attend_bytes(scheme, points, points, element_size, threads) +
         output_bytes(scheme, points, points, dimension, element_size, threads);
}

template SelfAttentionOutcome attend_to_each_other(MatrixView<const float>, const SelfAttention&,
                                                   MatrixView<float>, int);
template SelfAttentionOutcome attend_to_each_other(MatrixView<const double>, const SelfAttention&,
                                                   MatrixView<double>, int);

}  // namespace attn::collapse
