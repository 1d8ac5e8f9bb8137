#pragma once

#include <optional>

#include "fenchel/closed_forms.hpp"
#include "fenchel/dual.hpp"
#include "tensor/pooled_vector.hpp"

namespace attn {

/// Where the results of Q queries go, each of Q rows. A result whose view has no rows is not
/// returned.
struct QueryTargets {
  MatrixView<double> lambda = {};              ///< λ (Q, d)
  MatrixView<double> h = {};                   ///< ĥ (Q, d)
  MatrixView<double> p = {};                   ///< (Q, n)
  ClosedForms closed_forms = {};               ///< for the α of each query
  MatrixView<double> relative_deviation = {};  ///< ‖λ − αz‖/‖λ‖ (Q, 1); 0 for empty queries
  MatrixView<double> out = {};                 ///< p v (Q, dv)
  /// ‖p₁v − out‖/‖out‖ (Q, 1), where p₁ is p at λ = αz: how far softmax attention is from `out`.
  MatrixView<double> out_deviation = {};
};

/// Solves all queries of a problem, by solve_radius with a `square_radius`, else by solve_dual, and
/// finds all that is wanted of them. `values` are v (n, dv); only `out` and its deviation use them.
/// Throws the errors of these functions.
PooledVector<DualSummary> solve_queries(const DualProblem& problem,
                                        std::optional<double> square_radius,
                                        const DualOptions& options, MatrixView<const double> values,
                                        int threads, const QueryTargets& targets);

}  // namespace attn
