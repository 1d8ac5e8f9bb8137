#pragma once

#include <cstdint>
#include <optional>

#include "attnkit/dual.hpp"
#include "tensor/pooled_vector.hpp"
#include "tensor/view.hpp"

namespace attn {

/// Fenchel-dual inference of Q queries over the same templates t_1 … t_n (MATHEMATICS.md §4, FD
/// 3-10):
///
///   max_λ  D(λ) = ⟨λ, μ̃ + z⟩ − ‖λ‖²/(2α) − Ψ(Tλ),   p = ∇Ψ(Tλ),   ĥ = Σ p_i t_i,
///
/// where Ψ(ℓ) = log Σ u_i exp ℓ_i for the divergence KL(p‖u), so that p_i ∝ u_i exp⟨t_i,λ⟩, and for
/// optimal transport (TransportCost; FD 37-40)
///
///   Ψ(ℓ) = γ Σ_i u_i log Σ_t exp((ℓ_t − M(t,i))/γ) + γ H(u).
///
/// μ̃ is the mean of the templates under p at λ = 0: μ = Σ u_i t_i for KL. D is (1/α)-strongly
/// concave; its gradient is μ̃ + z − λ/α − ĥ, and the duality gap at (λ, p) is (α/2)‖gradient‖².
struct TransportCost {
  MatrixView<const double> cost;  ///< M (n, n) >= 0: row t, column source i; +inf forbids
  double gamma = 1;               ///< > 0, finite
};

/// The most queries that are solved together.
inline constexpr Index dual_part_step = 48;

struct DualProblem {
  MatrixView<const double> templates;  ///< t (n, d), finite
  MatrixView<const double> evidence;   ///< z (Q, d), finite
  /// u, (1, n) for all queries or (Q, n): finite and >= 0; each row is divided by its sum. A query
  /// whose row is all 0 has no problem to solve; it gets DualStatus::empty, and zeros for results.
  MatrixView<const double> preference;
  double alpha = 1;                                       ///< > 0, finite
  std::optional<TransportCost> transport = std::nullopt;  ///< else KL

  /// The total number of queries if these are a part; 0: these are all. The results have the bits
  /// of a run with all queries if the total is at least 4 dual_part_step, and the part begins and
  /// ends at multiples of dual_part_step, or ends with the last query.
  Index all_queries = 0;
  Index first_query = 0;  ///< the number of the first query here, for messages
};

/// Where results go, each of Q rows. A result whose view has no rows is not returned.
struct DualResults {
  MatrixView<double> lambda;  ///< λ (Q, d), required
  MatrixView<double> h = {};  ///< ĥ (Q, d)
  MatrixView<double> p = {};  ///< (Q, n)
};

/// Solves all queries, on up to `threads` threads, by Newton's method with a line search. For KL,
/// all queries of a block are solved together, with steps by conjugate gradients through products
/// with the templates or their Gram matrix (in float32, gradients in float64), or by second moments
/// if min(n, d) <= 16. Queries for which this is slow, and optimal transport, use dense Cholesky
/// factors; if these take many steps, they start from the solutions for smaller α. The result of a
/// query depends on the number of queries, but not on the other queries or the threads. ‖λ − λ*‖ <=
/// α‖gradient‖, in which rounding is about 2⁻⁵² (‖z‖ + max‖t‖ (1 + max‖t‖‖λ‖)) with t measured from
/// the mean of the templates, so that a common shift costs no digits. Callers check α, γ and the
/// options. Throws Error(input) for shapes that disagree and for numbers of matrices out of the
/// ranges above, Error(numerical) if αz, or a logit, is beyond the format.
PooledVector<DualSummary> solve_dual(const DualProblem& problem, const DualOptions& options,
                                     int threads, const DualResults& results);

/// The blocks of queries that threads of solve_dual share.
Index dual_blocks(Index queries);

/// The most bytes that solve_dual allocates.
std::int64_t dual_bytes(Index queries, Index templates, Index depth, bool transport, int threads);

}  // namespace attn
