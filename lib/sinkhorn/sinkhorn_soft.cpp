// Sinkhorn's iterations with penalties on the marginals.

#include <cmath>

#include "pass/pass.hpp"
#include "sinkhorn/column_potentials.hpp"
#include "sinkhorn/iteration_range.hpp"
#include "sinkhorn/sinkhorn.hpp"
#include "sinkhorn/soft_marginals.hpp"
#include "tensor/infinity.hpp"

namespace attn {

// The same with penalties, in two passes. Returns the errors of the plan of `col` and `row`.
template <class T>
MarginalErrors SinkhornIteration<T>::soft_maxima(std::span<double> col, std::span<double> row,
                                                 std::span<double> next) {
  const MarginalPenalties& penalties = *marginals_.penalties;
  Pass<T> pass;
  pass.scores = &scores_;
  pass.completes = Completes::rows;
  pass.components = {Component{1, row, col}};
  pass.log_marginal = marginals_.row;
  run(pass, threads_);
  for (double& f : row) f *= soft_exponent(penalties.row);
  column_potentials<T>(scores_, row, next, marginals_.col, threads_);
  MarginalErrors errors;
  bool visible = can_absorb(row, col);
  for (Index j = 0; j < scores_.cols(); ++j) {
    const auto at = static_cast<std::size_t>(j);
    const double log_b = log_marginal(marginals_.col, j);
    const double exact = next[at];
    next[at] *= soft_exponent(penalties.col);
    if (std::isinf(col[at])) {
      // 0, unless the column underflowed.
      errors.col += soft_sum(log_b, next[at], penalties.col);
      continue;
    }
    const double sum = std::exp(exact + log_b - col[at]);
    visible = visible && sum >= smallest_sum<T>;
    errors.col += std::abs(sum - soft_sum(log_b, col[at], penalties.col));
  }
  visible ? kernel_.refer_to(row, col) : kernel_.refer_to({}, {});
  const double translation =
      soft_translation(penalties, log_soft_mass(marginals_.row, row, penalties.row),
                       log_soft_mass(marginals_.col, next, penalties.col));
  for (double& g : next) g += translation;
  return errors;
}

// ScalingPass::row_shift: f = φ (reference + log r − log a) is relative to the reference.
template <class T>
PooledVector<double> SinkhornIteration<T>::soft_shift() const {
  PooledVector<double> shift;
  if (!marginals_.penalties || kernel_.refers_to_zero()) return shift;
  const double share = 1 - soft_exponent(marginals_.penalties->row);
  for (Index i = 0; i < scores_.rows(); ++i) shift.push_back(share * kernel_.row_reference(i));
  return shift;
}

// The errors of the plan with factors ρ, κ and sums r, c. Unless rows are relaxed, they have the
// sums that their potentials imply.
template <class T>
MarginalErrors SinkhornIteration<T>::soft_errors(std::span<const double> row_sum,
                                                 std::span<const double> col_sum,
                                                 std::span<const double> row_factor,
                                                 std::span<const double> col_factor,
                                                 bool relaxed) const {
  const auto add = [](std::span<const double> sum, std::span<const double> factor,
                      std::span<const double> log_marginals, double penalty,
                      const auto& reference) {
    double error = 0;
    for (std::size_t n = 0; n < sum.size(); ++n) {
      if (factor[n] == 0) continue;
      const auto line = static_cast<Index>(n);
      const double log_factor = std::log(factor[n]);
      const double wanted =
          soft_sum(log_marginal(log_marginals, line), reference(line) - log_factor, penalty);
      error += std::abs(std::exp(std::log(sum[n]) + log_factor) - wanted);
    }
    return error;
  };
  const MarginalPenalties& penalties = *marginals_.penalties;
  MarginalErrors errors;
  if (relaxed) {
    errors.row = add(row_sum, row_factor, marginals_.row, penalties.row,
                     [&](Index i) { return kernel_.row_reference(i); });
  }
  errors.col = add(col_sum, col_factor, marginals_.col, penalties.col,
                   [&](Index j) { return kernel_.col_reference(j); });
  return errors;
}

// The next g from c and κ, relaxed and translated. `row` are the potentials f. False if a c
// underflowed; its column keeps its g.
template <class T>
bool SinkhornIteration<T>::soft_columns(std::span<const double> row, std::span<const double> sum,
                                        std::span<const double> factor, double relaxation,
                                        std::span<double> next) const {
  const MarginalPenalties& penalties = *marginals_.penalties;
  bool complete = true;
  for (std::size_t j = 0; j < sum.size(); ++j) {
    next[j] = minus_infinity;
    if (factor[j] == 0) continue;
    const auto column = static_cast<Index>(j);
    const double reference = kernel_.col_reference(column);
    const double before = reference - std::log(factor[j]);
    next[j] = before;
    if (!(sum[j] > 0 && std::isfinite(sum[j]))) {
      complete = false;
      continue;
    }
    const double exact = soft_exponent(penalties.col) *
                         (reference + std::log(sum[j]) - log_marginal(marginals_.col, column));
    next[j] = relaxation == 1 ? exact : before + relaxation * (exact - before);
  }
  const double translation =
      soft_translation(penalties, log_soft_mass(marginals_.row, row, penalties.row),
                       log_soft_mass(marginals_.col, next, penalties.col));
  for (double& g : next) g += translation;
  return complete;
}

#define ATTN_FOR_TYPE(T)                                                                          \
  template MarginalErrors SinkhornIteration<T>::soft_maxima(std::span<double>, std::span<double>, \
                                                            std::span<double>);                   \
  template PooledVector<double> SinkhornIteration<T>::soft_shift() const;                         \
  template bool SinkhornIteration<T>::soft_columns(                                               \
      std::span<const double>, std::span<const double>, std::span<const double>, double,          \
      std::span<double>) const;                                                                   \
  template MarginalErrors SinkhornIteration<T>::soft_errors(                                      \
      std::span<const double>, std::span<const double>, std::span<const double>,                  \
      std::span<const double>, bool) const;
ATTN_FOR_TYPE(float)
ATTN_FOR_TYPE(double)
#undef ATTN_FOR_TYPE

}  // namespace attn
