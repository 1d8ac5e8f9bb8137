#include "scheme/gradient.hpp"

#include <cmath>
#include <utility>

#include "gradient/centred_values.hpp"
#include "scheme/scheme_description.hpp"
#include "scheme/transport_gradient.hpp"

namespace attn {

namespace {

// du also has a term by query: the weights w of the sink times row_i = −coefficient·δ_i. du over
// the keys alone takes δ of the mixture from each product. This changes nothing where rows of both
// parts sum to 1; with sinks, the rest of each row counts.
template <class T>
NumberGradients of_sink(double sink, const PooledVector<WeightAdjoint<T>>& adjoints) {
  NumberGradients found;
  found.sink = sink_gradient(sink, adjoints);
  if (adjoints.size() < 2) return found;
  const WeightAdjoint<T>& dnas = adjoints[0];
  const WeightAdjoint<T>& unas = adjoints[1];
  for (std::size_t i = 0; i < dnas.row.size(); ++i) {
    const double row = static_cast<double>(dnas.row[i]) + static_cast<double>(unas.row[i]);
    found.hybrid += (std::exp(sink - dnas.f[i]) - std::exp(sink - unas.f[i])) * row;
  }
  return found;
}

// The preferences u of fenchel: weights are exp(t_ij − f_i) u_ij with scores t that leave them out,
// so ∂L/∂u_ij = exp(t_ij − f_i)(G_ij − δ_i), also where u_ij = 0. This is dS of the weights exp(t −
// f). A key without any preference is not in use by the scores, but by t.
template <class T>
void differentiate_preferences(const CentredValues<T>& centred, const TileProduct<T>& products,
                               const PooledVector<WeightAdjoint<T>>& adjoints,
                               const GradientTargets<T>& targets, int threads) {
  const Forward<T>& forward = centred.forward();
  typename Scores<T>::Terms terms = forward.scores->terms();
  terms.preference = nullptr;
  const Scores<T> plain(terms);
  Forward<T> without = forward;
  without.scores = &plain;
  without.folds = false;
  GradientTargets<T> sinks;
  sinks.scores = targets.preferences;
  if (forward.attention->allowed.empty_keys() == 0) {
    differentiate_weights(without, products, adjoints, sinks, threads);
    return;
  }
  Buffer<T> values;
  without.v = centred.values_of(plain.allowed_counts().queries_of_key, values);
  const TileProduct<T> with_all(forward.grad_out, without.v, T{1}, forward.dropout);
  differentiate_weights(without, with_all, adjoints, sinks, threads);
}

}  // namespace

template <class T>
double sink_gradient(double sink, const PooledVector<WeightAdjoint<T>>& adjoints) {
  double sum = 0;
  for (const WeightAdjoint<T>& adjoint : adjoints) {
    for (std::size_t i = 0; i < adjoint.row.size(); ++i) {
      sum += std::exp(sink - adjoint.f[i]) * static_cast<double>(adjoint.row[i]);
    }
  }
  return sum;
}

template <class T>
NumberGradients differentiate(const Forward<T>& given, const GradientTargets<T>& targets,
                              int threads) {
  const SchemeDescription& scheme = description_of(given.options.scheme);
  const CentredValues<T> centred(given, threads);
  const Forward<T>& forward = centred.forward();
  const TileProduct<T> products(forward.grad_out, forward.v, T{1}, forward.dropout);
  GradientTargets<T> wanted = targets;
  wanted.hybrid = targets.hybrid && scheme.is_mixture();
  if (scheme.is_transport()) {
    differentiate_transport(forward, products, wanted, threads);
    return {};
  }
  PooledVector<WeightAdjoint<T>> adjoints = scheme.differentiate(forward, products, threads);
  if (!wanted.preferences.empty()) {
    differentiate_preferences(centred, products, adjoints, wanted, threads);
  }
  NumberGradients found;
  if (given.options.sink != no_sink) found = of_sink(given.options.sink, adjoints);
  const double over_keys =
      differentiate_weights(forward, products, std::move(adjoints), wanted, threads);
  found.hybrid = wanted.hybrid ? found.hybrid + over_keys : 0;
  return found;
}

std::int64_t differentiate_bytes(const SchemeOptions& options, const GradientSizes& sizes) {
  return description_of(options.scheme).gradient_bytes(sizes, options);
}

template double sink_gradient(double, const PooledVector<WeightAdjoint<float>>&);
template double sink_gradient(double, const PooledVector<WeightAdjoint<double>>&);
template NumberGradients differentiate(const Forward<float>&, const GradientTargets<float>&, int);
template NumberGradients differentiate(const Forward<double>&, const GradientTargets<double>&, int);

}  // namespace attn
