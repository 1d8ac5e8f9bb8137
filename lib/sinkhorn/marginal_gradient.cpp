#include "sinkhorn/marginal_gradient.hpp"

#include <cmath>

#include "tensor/infinity.hpp"

namespace attn {

MarginalGradient marginal_gradient(const Potentials& potentials, const Marginals& marginals,
                                   double unit) {
  const auto side = [unit](const PooledVector<double>& potential,
                           const PooledVector<double>& marginal,
                           const std::optional<double>& penalty) {
    PooledVector<double> gradient;
    for (std::size_t n = 0; n < potential.size(); ++n) {
      if (marginal[n] == 0 && potential[n] == minus_infinity) {
        gradient.push_back(minus_infinity);
      } else if (penalty) {
        gradient.push_back(-unit * *penalty * std::expm1(potential[n] / *penalty));
      } else {
        gradient.push_back(-unit * potential[n]);
      }
    }
    return gradient;
  };
  const auto& penalties = marginals.penalties;
  return {
      side(potentials.row, marginals.row, penalties ? std::optional(penalties->row) : std::nullopt),
      side(potentials.col, marginals.col,
           penalties ? std::optional(penalties->col) : std::nullopt)};
}

}  // namespace attn
