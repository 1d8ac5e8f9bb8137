// Sinkhorn's iteration of a side with itself: both potentials are equal.

#include <cmath>

#include "pass/pass.hpp"
#include "sinkhorn/iteration_range.hpp"
#include "sinkhorn/scaling_pass.hpp"
#include "sinkhorn/sinkhorn.hpp"
#include "sinkhorn/soft_marginals.hpp"
#include "tensor/infinity.hpp"

namespace attn {

// LSE_j(s_ij − f_j) − log a_i by a product with the kernel, whose rows and columns have the same
// reference; false if the result is out of range.
template <class T>
bool SinkhornIteration<T>::symmetric_product(std::span<const double> potential,
                                             std::span<double> exact) {
  PooledVector<double> factor;
  if (!kernel_.refers() || !find_factors(potential, factor)) return false;
  ScalingPass pass;
  pass.row_scale = factor;
  pass.col_sum = exact;
  passes_.run(pass);
  for (std::size_t i = 0; i < exact.size(); ++i) {
    if (potential[i] == minus_infinity) {
      exact[i] = minus_infinity;
      continue;
    }
    if (!(exact[i] > 0 && std::isfinite(exact[i]))) return false;
    const auto line = static_cast<Index>(i);
    exact[i] =
        kernel_.row_reference(line) + (std::log(exact[i]) - log_marginal(marginals_.row, line));
  }
  return true;
}

template <class T>
void SinkhornIteration<T>::iterate_symmetric(std::span<double> potential,
                                             const IterationCallback& callback) {
  PooledVector<double> exact(potential.size());
  for (;;) {
    const bool by_product = symmetric_product(potential, exact);
    if (!by_product) {
      Pass<T> pass;
      pass.scores = &scores_;
      pass.completes = Completes::rows;
      pass.components = {Component{1, exact, potential}};
      pass.log_marginal = marginals_.row;
      run(pass, threads_);
    }
    MarginalErrors errors;
    double total = 0;
    for (std::size_t i = 0; i < potential.size(); ++i) {
      const double a = row_marginal_.empty() ? 1 : row_marginal_[i];
      const bool open = potential[i] != minus_infinity;
      total += a;
      if (marginals_.penalties && !open) continue;  // its sum is to be 0
      if (marginals_.penalties) {
        const double penalty = marginals_.penalties->row;
        const double log_a = log_marginal(marginals_.row, static_cast<Index>(i));
        errors.row += std::abs(a * std::exp(exact[i] - potential[i]) -
                               soft_sum(log_a, potential[i], penalty));
        exact[i] *= soft_exponent(penalty);
      } else {
        errors.row += a * (open ? std::abs(std::expm1(exact[i] - potential[i])) : 1);
      }
    }
    errors.col = errors.row;
    if (!callback(errors)) return;
    for (std::size_t i = 0; i < potential.size(); ++i) {
      if (potential[i] != minus_infinity) potential[i] = (potential[i] + exact[i]) / 2;
    }
    if (by_product) continue;
    // Far from the solution, the plan may be out of the format's range.
    const bool near = errors.row <= total && can_absorb(potential, potential);
    near ? kernel_.refer_to(potential, potential) : kernel_.refer_to({}, {});
  }
}

#define ATTN_FOR_TYPE(T)                                                   \
  template void SinkhornIteration<T>::iterate_symmetric(std::span<double>, \
                                                        const IterationCallback&);
ATTN_FOR_TYPE(float)
ATTN_FOR_TYPE(double)
#undef ATTN_FOR_TYPE

}  // namespace attn
