#pragma once

#include <cstdint>
#include <optional>

#include "attnkit/attention.hpp"
#include "attnkit/collapse.hpp"
#include "score/mixture_energy.hpp"
#include "score/scores.hpp"
#include "tensor/buffer.hpp"
#include "tensor/pooled_vector.hpp"

/// Expectation maximisation of a mixture of Gaussians whose centres are the queries and whose data
/// are the keys (MATHEMATICS.md §2, the mixture view; DN 2-8 and App. A, EA 2-8). All in float64.
namespace attn {

/// M components N(q_i, σ_i² I) with priors β_i that sum to 1.
struct Mixture {
  Index components = 0;
  Index dimension = 0;
  Buffer<double> centre;           ///< q (M, d)
  PooledVector<double> log_prior;  ///< log β (M); −inf for a component that no point may belong to
  PooledVector<double> variance;  ///< σ² (M)

  Mixture() = default;
  Mixture(Index count, Index depth)
      : components(count),
        dimension(depth),
        centre(count * depth),
        log_prior(static_cast<std::size_t>(count)),
        variance(static_cast<std::size_t>(count)) {}

  MatrixView<const double> centres() const { return {centre.data(), components, dimension}; }
};

/// The data of a mixture: points k (N, d), and the components that each point may belong to.
struct MixtureData {
  MatrixView<const double> points;
  const MatrixSource<std::uint8_t>* mask = nullptr;  ///< (M, N): 0 forbids
  BandRule band = {};
};

/// The scores s_ij = log (β_i N(k_j | q_i, σ_i² I)). Under dnas g_j is the log-density of point j,
/// Σ_j g_j the log-likelihood, exp(s_ij − g_j) the share ξ_ij of component i in point j, and
/// exp(f_i) = Σ_j ξ_ij. `data` and `mixture` must outlive the scores.
template <class T>
class MixtureScores {
 public:
  MixtureScores(const MixtureData& data, const Mixture& mixture);

  const Scores<T>& scores() const { return scores_; }

 private:
  PooledVector<double> offset_;
  MixtureEnergy<T> energy_;
  Scores<T> scores_;
};

/// Subtracts the log-sum-exp from the logs of priors; does nothing if all are −inf.
void normalise_priors(PooledVector<double>& log_prior);

/// Σ_j g_j over the points that may belong to a component. Throws Error(numerical) if it is not
/// finite.
double mixture_log_likelihood(const PooledVector<double>& col_potential);

/// One step of EM from `from` to `to`, of the same shape:
///
///   q_i ← Σ_j ξ_ij k_j / Σ_j ξ_ij
///   σ_i² ← max(min_variance, Σ_j ξ_ij ‖k_j − q_i‖² / (d Σ_j ξ_ij)) with the new q, if estimated
///   β_i ← mean_j ξ_ij, if estimated
///
/// Components that no point may belong to stay. If variances are estimated, `from` must have σ_i² ≥
/// min_variance. Returns the log-likelihood of `from`, which never falls from step to step. Memory
/// O((M + N) d); the bits do not depend on `threads`. Throws whatever attend throws, and
/// Error(numerical) for a likelihood that is not finite.
collapse::EmStep em_step(const MixtureData& data, const Mixture& from, const Repetition& options,
                         Mixture& to, int threads);

/// Bytes that a step takes in addition to data and mixtures.
std::int64_t mixture_step_bytes(Index components, Index points, Index dimension, int threads);

}  // namespace attn
