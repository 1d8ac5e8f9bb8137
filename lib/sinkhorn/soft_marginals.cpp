#include "sinkhorn/soft_marginals.hpp"

#include <algorithm>
#include <cmath>

#include "tensor/infinity.hpp"

namespace attn {
namespace {

// Relative differences. Below the first, four terms of the series are as good as the logarithm,
// whose terms cancel; above the second, nothing cancels.
constexpr double small_difference = 1e-3;
constexpr double large_difference = 0.5;

double log_soft_sum(double log_marginal, double potential, double penalty) {
  // Avoids −inf + inf for a marginal of 0.
  return potential == minus_infinity ? minus_infinity : log_marginal + potential / penalty;
}

}  // namespace

double soft_sum(double log_marginal, double potential, double penalty) {
  return std::exp(log_soft_sum(log_marginal, potential, penalty));
}

double log_soft_mass(std::span<const double> log_marginal, std::span<const double> potential,
                     double penalty) {
  const auto line = [&](std::size_t n) {
    return log_soft_sum(log_marginal.empty() ? 0 : log_marginal[n], potential[n], penalty);
  };
  double largest = minus_infinity;
  for (std::size_t n = 0; n < potential.size(); ++n) largest = std::max(largest, line(n));
  if (std::isinf(largest)) return largest;
  double sum = 0;
  for (std::size_t n = 0; n < potential.size(); ++n) sum += std::exp(line(n) - largest);
  return largest + std::log(sum);
}

double soft_translation(const MarginalPenalties& penalties, double log_row_mass,
                        double log_col_mass) {
  const double apart = log_row_mass - log_col_mass;
  // ρ_a ρ_b may overflow.
  return std::isfinite(apart) ? apart / (1 / penalties.row + 1 / penalties.col) : 0;
}

double kl_term(double x, double y) {
  if (x == 0) return y;
  const double d = (x - y) / y;
  // (1 + d) log(1 + d) − d
  if (std::abs(d) < small_difference) {
    return y * d * d * (1.0 / 2 - d * (1.0 / 6 - d * (1.0 / 12 - d * (1.0 / 20))));
  }
  if (std::abs(d) < large_difference) return y * ((1 + d) * std::log1p(d) - d);
  return x * std::log(x / y) - (x - y);
}

}  // namespace attn
