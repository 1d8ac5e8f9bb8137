#include "sinkhorn/marginal_gradient.hpp"

#include <algorithm>
#include <cmath>

#include "sinkhorn/completed_lines.hpp"
#include "sinkhorn/soft_marginals.hpp"
#include "tensor/infinity.hpp"

namespace attn {
namespace {

bool has_closed(const PooledVector<double>& potential) {
  return std::find(potential.begin(), potential.end(), minus_infinity) != potential.end();
}

// `completed` are the potentials of lines with the sum 1, −inf for a line whose mass may go
// nowhere. Read for closed lines only.
PooledVector<double> gradient_of_side(const PooledVector<double>& potential,
                                      const PooledVector<double>& completed,
                                      const PooledVector<double>& marginal,
                                      std::optional<double> penalty, double unit) {
  PooledVector<double> gradient;
  for (std::size_t n = 0; n < potential.size(); ++n) {
    const double f = potential[n];
    if (f == minus_infinity && completed[n] != minus_infinity && marginal[n] == 0) {
      gradient.push_back(minus_infinity);
    } else if (penalty) {
      gradient.push_back(-unit * *penalty * std::expm1(f / *penalty));
    } else {
      gradient.push_back(-unit * f);
    }
  }
  return gradient;
}

}  // namespace

template <class T>
MarginalGradient marginal_gradient(const Scores<T>& scores, const Potentials& potentials,
                                   const Marginals& marginals, double unit, int threads) {
  PooledVector<double> row, col;
  if (has_closed(potentials.row)) {
    row = completed_rows<T>(
        scores, reached_potentials(potentials.col, marginals.row, marginals.col), threads);
  }
  if (has_closed(potentials.col)) {
    col = completed_cols<T>(
        scores, reached_potentials(potentials.row, marginals.col, marginals.row), threads);
  }
  const SoftSides soft(marginals.penalties);
  return {gradient_of_side(potentials.row, row, marginals.row, soft.row, unit),
          gradient_of_side(potentials.col, col, marginals.col, soft.col, unit)};
}

#define ATTN_FOR_TYPE(T)                                                           \
  template MarginalGradient marginal_gradient(const Scores<T>&, const Potentials&, \
                                              const Marginals&, double, int);
ATTN_FOR_TYPE(float)
ATTN_FOR_TYPE(double)
#undef ATTN_FOR_TYPE

}  // namespace attn
