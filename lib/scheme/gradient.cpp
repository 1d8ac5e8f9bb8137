#include "scheme/gradient.hpp"

#include "gradient/centred_values.hpp"
#include "scheme/scheme_description.hpp"

namespace attn {

template <class T>
double differentiate(const Forward<T>& given, const GradientTargets<T>& targets, int threads) {
  const SchemeDescription& scheme = description_of(given.options.scheme);
  const CentredValues<T> centred(given, threads);
  const Forward<T>& forward = centred.forward();
  const TileProduct<T> products(forward.grad_out, forward.v, T{1});
  GradientTargets<T> wanted = targets;
  wanted.hybrid = targets.hybrid && scheme.is_mixture();
  return differentiate_weights(forward, products, scheme.differentiate(forward, products, threads),
                               wanted, threads);
}

std::int64_t differentiate_bytes(const SchemeOptions& options, const GradientSizes& sizes) {
  return description_of(options.scheme).gradient_bytes(sizes, options);
}

template double differentiate(const Forward<float>&, const GradientTargets<float>&, int);
template double differentiate(const Forward<double>&, const GradientTargets<double>&, int);

}  // namespace attn
