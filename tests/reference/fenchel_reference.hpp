#pragma once

#include <vector>

#include "fenchel/dual.hpp"

/// The dual of one query by a damped Newton method on dense matrices in long double: the solvers
/// are tested against it. Written only from MATHEMATICS.md §4, sharing no code with them.
namespace attn::reference {

struct Dual {
  std::vector<long double> lambda;  ///< (d)
  std::vector<long double> p;       ///< (n)
  std::vector<long double> h;       ///< (d)
  long double gradient_norm = 0;
  long double primal = 0;
  long double dual = 0;
};

/// Solves query `query` of a problem, to a gradient near the rounding of long double. O(n d²) a
/// step, for transport O(n²(n + d)). Requires a problem with finite potentials and a preference
/// that is not all 0.
Dual solve_dual(const DualProblem& problem, Index query);

}  // namespace attn::reference
