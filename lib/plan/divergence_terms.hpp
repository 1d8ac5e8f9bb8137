#pragma once

#include "gradient/plan_gradient.hpp"
#include "sinkhorn/divergence_gradient.hpp"
#include "tensor/pooled_vector.hpp"

namespace attn {

/// The terms from which differentiate_solutions makes the derivative by the scores through a
/// divergence's potentials: of a with b, of a with itself and of b with itself. The result refers
/// to `found` and `solved`.
inline PooledVector<SolutionTerm> divergence_terms(const SinkhornDivergence& found,
                                                   const ImplicitDivergence& solved) {
  const auto term = [](const SinkhornSolution& solution, const ImplicitGradient& of) {
    return SolutionTerm{1, solution.potentials.row, solution.potentials.col, of.row, of.col};
  };
  PooledVector<SolutionTerm> terms;
  terms.push_back(term(found.between, solved.between));
  terms.push_back(term(found.row, solved.row));
  terms.push_back(term(found.col, solved.col));
  return terms;
}

}  // namespace attn
