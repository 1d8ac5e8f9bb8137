#include "scheme/log_likelihood.hpp"

#include <algorithm>

#include "tensor/compensated.hpp"
#include "tensor/infinity.hpp"
#include "tensor/pooled_vector.hpp"

namespace attn {
namespace {

// log Σ e^bias over the components with an allowed pair, which are the rows or the columns.
template <class T>
double log_prior_sum(const MatrixSource<T>* bias, const PooledVector<Index>& allowed, bool rows) {
  const auto count = static_cast<Index>(allowed.size());
  Buffer<T> read(bias == nullptr ? 0 : count);
  if (bias != nullptr && rows) bias->read({0, count, 0, 1}, {read.data(), count, 1});
  if (bias != nullptr && !rows) bias->read({0, 1, 0, count}, {read.data(), 1, count});
  const auto log_prior = [&](Index n) {
    if (allowed[static_cast<std::size_t>(n)] == 0) return minus_infinity;
    return bias == nullptr ? 0.0 : static_cast<double>(read[n]);
  };
  double largest = minus_infinity;
  for (Index n = 0; n < count; ++n) largest = std::max(largest, log_prior(n));
  if (largest == minus_infinity) return 0;
  Compensated sum;
  for (Index n = 0; n < count; ++n) sum.add(std::exp(log_prior(n) - largest));
  return largest + std::log(sum.value());
}

}  // namespace

template <class T>
std::optional<double> gaussian_log_likelihood(const Scores<T>& scores, Index depth, double scale,
                                              const SchemeOptions& options,
                                              const Attention& found) {
  const auto& terms = scores.terms();
  const bool dnas = options.scheme == Scheme::dnas;
  const bool more = terms.softcap || terms.relative != nullptr || terms.preference != nullptr ||
                    options.sink != no_sink;
  if (!(dnas || options.scheme == Scheme::unas) || more || !(scale > 0)) return std::nullopt;
  const bool by_component =
      terms.bias == nullptr || (dnas ? terms.bias->cols_alike() : terms.bias->rows_alike());
  if (!by_component) return std::nullopt;
  // Without queries or keys, no data count.
  if (scores.rows() == 0 || scores.cols() == 0) return 0;
  const PooledVector<double>& data = dnas ? found.potentials.col : found.potentials.row;
  const double divisor =
      log_gaussian_divisor(depth, 1 / scale) +
      log_prior_sum(terms.bias, dnas ? found.allowed.keys_of_query : found.allowed.queries_of_key,
                    dnas);
  Compensated sum;
  for (const double potential : data) {
    if (potential == minus_infinity) continue;
    sum.add(potential);
    sum.add(-divisor);
  }
  return sum.value();
}

template std::optional<double> gaussian_log_likelihood(const Scores<float>&, Index, double,
                                                       const SchemeOptions&, const Attention&);
template std::optional<double> gaussian_log_likelihood(const Scores<double>&, Index, double,
                                                       const SchemeOptions&, const Attention&);

}  // namespace attn
