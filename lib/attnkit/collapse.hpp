#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "attnkit/context.hpp"
#include "attnkit/error.hpp"
#include "attnkit/scheme.hpp"
#include "attnkit/stopping.hpp"
#include "attnkit/tensor.hpp"

/// Mode collapse, in batches: points that attend to each other move together, step by step, and
/// mixtures that are fitted to points lose components. Leading axes are batch axes. (DN §5.2, EA E;
/// MATHEMATICS.md §5)
namespace attn::collapse {

/// The distance, after one step of attention, between the means of two groups of coinciding points
/// on a line, r times as many at a as at −a (DN §5.2 and (12), EA E; MATHEMATICS.md §5). With s =
/// exp(−2a²) and q = (r + s)/(rs + 1),
///
///   unas  2r(1 − s²)a / ((1 + rs)(r + s))       dnas  2qr(1 − s²)a / ((q + rs)(r + sq)),
///
/// for both the gaussian energy and the dot product; the same for r and 1/r, and dnas >= unas.
struct Distances {
  double unas = 0;
  double dnas = 0;
  double gap = 0;  ///< dnas − unas, computed without a subtraction: never below 0
};

/// For r and a in [1e-301, 1e301]; NaN for anything else. The relative error, also of the smallest
/// gap, is about 10 + 4a² roundings, where 4a² is the error of s. Exceptions: where s underflows (a
/// > 18.8), the gap is off by up to 1e-22 of the distances; results below 2.3e-308 are off by up to
/// the spacing of numbers there. Nothing overflows.
Distances distances(double r, double a);

/// The position of the largest gap over r >= 1 (DN §5.2 claims that it grows without end:
/// MATHEMATICS.md §9, E11).
struct Peak {
  double log_r = 0;  ///< natural logarithm: r itself is beyond double from a = 15.4 on
  double gap = 0;
};

/// The root of d gap / d log r between log r = 0, where the gap is 0, and 4a² + 4. It goes from r =
/// 3 + 2√2 for a → 0 to r = s^(−3/2) for a → ∞. Relative error of log_r about 1e-14 max(1, 1/a²);
/// computed in logarithms throughout. Requires a in [1e-3, 1e100]; NaN for anything else.
Peak gap_peak(double a);

/// How points attend to each other.
struct SelfAttentionOptions {
  Scheme scheme = Scheme::unas;  ///< not transport
  double hybrid = 0.5;           ///< for hnas: u in [0, 1]
  Stopping stopping = {};        ///< for sinkhorn; measures the error of column sums
  std::string energy = "dot";    ///< dot, scaled-dot or gaussian
  double scale = 1;              ///< multiplies the energy; finite
  bool residual = false;         ///< adds each point to its output
};

/// The outcome of a step of one problem.
struct SelfAttentionStep {
  SolveStatus status = SolveStatus::done;
  Index iterations = 1;  ///< for sinkhorn
  /// The error that `stopping` defines, for sinkhorn with a tolerance; else NaN.
  double column_error = std::numeric_limits<double>::quiet_NaN();
  std::optional<Convergence> convergence = {};  ///< of the column error, if it did not converge

  /// For unas and dnas with the energy gaussian: the log-likelihood of the points before the step,
  /// under the mixture with variance 1/scale and equal priors that has a centre at each point. Else
  /// NaN.
  double log_likelihood = std::numeric_limits<double>::quiet_NaN();
};

/// Steps of self-attention of float or double points x (leading, N, d), which are queries, keys and
/// values: next_i = Σ_j π_ij x_j (+ x_i with `residual`). Different plans may run at the same time
/// in different threads; one plan must not run twice at a time.
template <class T>
class SelfAttentionPlan {
 public:
  /// Throws Error(input) for points with fewer than two axes, Error(usage) for invalid options and
  /// for options of another scheme that differ from their defaults, and Error(memory) if the plan
  /// does not fit into memory. `step` may throw Error(memory), too.
  SelfAttentionPlan(const Shape& points, const SelfAttentionOptions& options,
                    const Context& context);

  ~SelfAttentionPlan();
  SelfAttentionPlan(SelfAttentionPlan&&) noexcept;
  SelfAttentionPlan& operator=(SelfAttentionPlan&&) noexcept;

  const Shape& leading() const;

  /// The most bytes of working memory that a step takes, points and results not included. The first
  /// step allocates it and later steps reuse it. O(N d) for each thread that has work.
  std::int64_t workspace_bytes() const;

  /// One step. `next` must not be `points`; without data only the outcome is computed. Returns the
  /// outcome of each problem, in row-major order of the leading axes. Throws Error(input) for
  /// arrays whose shapes are not the plan's and for numbers that are not finite, Error(numerical)
  /// for scores or points beyond the range of T.
  std::vector<SelfAttentionStep> step(TensorView<const T> points, TensorView<T> next);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

/// How a step treats β.
enum class Priors {
  fixed,
  estimated,  ///< β_i = mean_j ξ_ij
  /// β_i ∝ exp(½‖q_i‖²/σ²): a step is then dnas with the dot product, scale 1/σ² and v = k. Such
  /// steps are not those of one EM, and the likelihood can fall. Requires one σ² for all.
  dnas,
};

struct EmOptions {
  Priors priors = Priors::fixed;
  bool estimates_variance = false;
  /// Lower bound of the variances, > 0; the likelihood is unbounded for σ² → 0. If
  /// estimates_variance is true, a step from a σ² below it is refused, because raising σ² could
  /// lower the likelihood. If estimates_variance is false, it must keep its default.
  double min_variance = 1e-6;
};

/// Results for the mixture from which a step started.
struct EmStep {
  double log_likelihood = 0;  ///< Σ_j log Σ_i β_i N(k_j | q_i, σ_i²I)
  bool at_floor = false;      ///< a σ_i² would have been below min_variance, and was set to it
  Index empty = 0;            ///< components whose share of all points underflows to 0
};

/// Mixtures of M Gaussians N(q_i, σ_i²I) with priors β_i that sum to 1, one for each problem. `T`
/// is double or const double.
template <class T>
struct MixtureViews {
  TensorView<T> centre;     ///< q (leading, M, d)
  TensorView<T> log_prior;  ///< log β (leading, M)
  TensorView<T> variance;   ///< one σ² for all components (leading), or σ_i² (leading, M)

  operator MixtureViews<const T>() const requires(!std::is_const_v<T>) {
    return {centre, log_prior, variance};
  }
};

/// Expectation maximisation of mixtures on points k (…, N, d), in float64 (DN 2-8, EA 2-8;
/// MATHEMATICS.md §2, the mixture view). Different plans may run at the same time in different
/// threads; one plan must not run twice at a time.
class MixturePlan {
 public:
  /// `centres` is the shape of q. `points` is the shape of k; its leading axes broadcast to the
  /// leading axes of the centres. Throws Error(input) for shapes that do not fit, Error(usage) for
  /// options out of range.
  MixturePlan(const Shape& points, const Shape& centres, const EmOptions& options,
              const Context& context);

  ~MixturePlan();
  MixturePlan(MixturePlan&&) noexcept;
  MixturePlan& operator=(MixturePlan&&) noexcept;

  const Shape& leading() const;
  Shape log_prior_shape() const;  ///< leading, M; also of the variance of each component

  /// The most bytes of working memory that a step takes, arguments and results not included. The
  /// first step allocates it and later steps reuse it.
  std::int64_t workspace_bytes() const;

  /// One step from `from` to `to`:
  ///
  ///   ξ_ij ∝_i β_i N(k_j | q_i, σ_i²I),   q_i ← Σ_j ξ_ij k_j / Σ_j ξ_ij,   β_i ← mean_j ξ_ij,
  ///   σ² ← max(min_variance, Σ_ij ξ_ij ‖k_j − q_i‖² / (d N)) with the new q for all, or
  ///   σ_i² ← max(min_variance, Σ_j ξ_ij ‖k_j − q_i‖² / (d Σ_j ξ_ij)) for each,
  ///
  /// EmOptions and the shape of the variance say how β and σ² change. The first two formulas are
  /// dnas with the scores log β_i + log N. `to` may be `from`. The likelihood never falls from step
  /// to step, up to rounding, unless the priors are those of dnas. Returns the results of each
  /// problem. Throws Error(input) for arrays whose shapes are not the plan's and for numbers that
  /// are not allowed, Error(usage) for Priors::dnas with a variance of each component,
  /// Error(numerical) for scores or a likelihood beyond the range of float64.
  std::vector<EmStep> step(const TensorView<const double>& points,
                           const MixtureViews<const double>& from, const MixtureViews<double>& to);

  /// Returns Σ_j log Σ_i β_i N(k_j | q_i, σ_i²I) of each problem, with the bits that `step`
  /// returns.
  std::vector<double> log_likelihood(const TensorView<const double>& points,
                                     const MixtureViews<const double>& mixture);

  /// Writes the centres (leading, M, d) that dnas with the dot product, scale 1/σ² and v = k makes
  /// of `mixture`: the expected result of a step with the priors of dnas. Returns the error of each
  /// problem, relative to the largest coordinate of its points: 1e-12 + 16 roundings of the largest
  /// score. Throws as `step` does.
  std::vector<double> dnas_centres(const TensorView<const double>& points,
                                   const MixtureViews<const double>& mixture,
                                   const TensorView<double>& centres);

  /// Sets β_i ∝ exp(½‖q_i‖²/σ²), summing to 1: with these priors a step is dnas with the dot
  /// product. Throws as `step` does.
  void set_dnas_priors(const MixtureViews<double>& mixture);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

/// Positions and extent of the C clusters of a set of points.
struct ClusterStatistics {
  std::vector<double> centre;    ///< (C, d), the mean of each cluster's points
  std::vector<double> distance;  ///< (C, C), between centres
  std::vector<double> spread;    ///< (C), the root of the mean squared distance to the centre

  /// The effective number of modes: the similarity-sensitive diversity of order 1 (Leinster &
  /// Cobbold 2012, Ecology 93:477, (1)) of the centres, all with the same weight and with the
  /// similarity of a gaussian of width h,
  ///
  ///   exp(−(1/C) Σ_c log((1/C) Σ_c' exp(−‖m_c − m_c'‖²/(2h²)))),
  ///
  /// from 1 (all in one place) to C (far apart, in units of h).
  double modes = 0;

  double least_distance() const;  ///< between two different clusters; NaN for C = 1
};

/// Statistics of clusters of float or double points (leading, N, d). Different plans may run at the
/// same time in different threads; one plan must not run twice at a time.
template <class T>
class ClusterPlan {
 public:
  /// `labels` (…, N) broadcasts to (leading, N). `width` is the h of the similarity, > 0 and
  /// finite. Throws Error(input) for shapes that do not fit, Error(usage) for a width or a number
  /// of clusters out of range.
  ClusterPlan(const Shape& points, const Shape& labels, Index clusters, double width,
              const Context& context);

  ~ClusterPlan();
  ClusterPlan(ClusterPlan&&) noexcept;
  ClusterPlan& operator=(ClusterPlan&&) noexcept;

  const Shape& leading() const;

  /// The most bytes of working memory that a run takes, arguments and results not included. The
  /// first run allocates it and later runs reuse it.
  std::int64_t workspace_bytes() const;

  /// Returns the statistics of each problem. Every label is in [0, clusters), and every cluster has
  /// at least one point. Throws Error(input) for other labels, for arrays whose shapes are not the
  /// plan's and for points that are not finite; Error(numerical) if a sum of points or a distance
  /// is beyond float64.
  std::vector<ClusterStatistics> run(TensorView<const T> points, TensorView<const Index> labels);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace attn::collapse
