#pragma once

#include <span>

#include "fenchel/dual.hpp"

namespace attn {

/// Results of the closed forms of λ, means of (Q, d). A result whose view has no rows is not
/// returned.
struct ClosedForms {
  MatrixView<double> h_first_order = {};   ///< at λ = αz (FD 15; for transport FD 24)
  MatrixView<double> p_first_order = {};   ///< p there (Q, n)
  MatrixView<double> h_second_order = {};  ///< at λ = α(I + αΣ)⁻¹z (FD 14)

  bool any() const {
    return h_first_order.rows > 0 || p_first_order.rows > 0 || h_second_order.rows > 0;
  }
};

/// ĥ = Σ p_i t_i at approximations of λ*, with p by (10), for transport by (37). The first order is
/// attention: p_i ∝ u_i exp⟨t_i, αz⟩ (FD 17), with a λ off by α²Σz + O(α³). In the second order,
/// I/α + Σ is minus the second derivative of the dual at λ = 0, so for KL Σ is the covariance of u;
/// λ is off by O(α³), or O(α⁴) if the third cumulant of u vanishes. Query q has α = alphas[q],
/// finite and >= 0; `problem.alpha` is not read. One factor of min(n, d)² numbers serves queries of
/// a shared preference and the same α; other queries take one factor each. Empty queries get zeros.
/// Checks and errors as in solve_dual, if any result is requested.
void closed_forms(const DualProblem& problem, std::span<const double> alphas, int threads,
                  const ClosedForms& results);

/// ‖λ − αz‖ / ‖λ‖ of one query (FD §8): the distance of its attention from exact inference. 0 if
/// both norms are 0, +inf if only ‖λ‖ is 0.
double relative_deviation(const double* lambda, const double* evidence, Index depth, double alpha);

}  // namespace attn
