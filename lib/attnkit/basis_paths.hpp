#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "attnkit/error.hpp"
#include "attnkit/tensor.hpp"

/// Basis paths of query and key weights, in batches (SI; MATHEMATICS.md §6). The scores of a head
/// depend on its weights W_Q and W_K (d1, d2) only through the paths W_Q[i,c] W_K[j,c], which do
/// not change when a column is rescaled to W_Q[:,c] f and W_K[:,c] / f. All paths follow from 2 d1
/// − 1 basis paths per column, the paths through a chosen row of W_Q or a chosen row of W_K; these
/// two rows are the column's skeleton. An optimiser's step on the values of the basis paths does
/// not depend on such rescalings.
namespace attn {

/// The row of W_Q and the row of W_K through which the basis paths of a column go.
struct Skeleton {
  std::vector<Index> q;  ///< by column
  std::vector<Index> k;

  Index columns() const { return static_cast<Index>(q.size()); }
  Index q_of(Index column) const { return q[static_cast<std::size_t>(column)]; }
  Index k_of(Index column) const { return k[static_cast<std::size_t>(column)]; }
};

enum class Optimizer { sgd, adam, si_sgd, si_adam, si_sgd_printed };

/// Each optimiser ignores the options of the others, so that the same options serve to compare
/// them.
struct StepOptions {
  Optimizer optimizer = Optimizer::si_sgd;
  double rate = 1e-3;  ///< η > 0

  // For adam and si_adam: m ← β₁m + (1−β₁)g, v ← β₂v + (1−β₂)g², a step of
  // η m/(1−β₁ᵗ) / (√(v/(1−β₂ᵗ)) + ε), t = `number`, counted from 1.
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  Index number = 1;

  // Options that apply to the gradients and values that the optimiser steps on: of basis paths for
  // optimisers in paths, which keeps their steps independent of rescalings; else of weights.
  double gradient_factor = 1;  ///< multiplies all gradients first, as clipping by norm does; >= 0
  double momentum = 0;         ///< μ in [0, 1), not for adam's rules: m ← μm + g, a step of ηm
  double decay = 0;  ///< λ >= 0; sgd: g ← g + λ·value; adam: a step of ηλ·value more (AdamW)

  /// A column is singular if its ratio R, by which a step multiplies the skeleton's path, is below
  /// this (> 0), or not finite. A singular column and its moments stay as they are. With `clips`, R
  /// is raised to min_ratio instead, unless R is infinite or NaN.
  double min_ratio = 1e-3;
  bool clips = false;
};

struct SingularColumn {
  Index col;
  double ratio;  ///< R before it was clipped; NaN where a skeleton's weight is 0
};

struct StepSummary {
  std::vector<SingularColumn> singular;  ///< in order; only for optimisers in paths
  /// The range of R, singular columns included; empty (least > largest) if there is no R.
  double least_ratio = std::numeric_limits<double>::infinity();
  double largest_ratio = -std::numeric_limits<double>::infinity();
  /// max over columns of |Σ G_Q W_Q − Σ G_K W_K| / (Σ |G_Q W_Q| + Σ |G_K W_K|): 0 up to rounding if
  /// the loss does not change under rescalings; otherwise paths do not follow their gradients.
  double inconsistency = 0;

  /// Appends the summary of the next columns, which start at column `first`.
  void add(const StepSummary& more, Index first);
};

/// W_Q and W_K of all problems, or their gradients: both (leading, d1, d2).
template <class T>
struct PathWeights {
  TensorView<T> wq;
  TensorView<T> wk;

  operator PathWeights<const T>() const requires(!std::is_const_v<T>) { return {wq, wk}; }
};

/// First and second moments: (leading, 2 d1, d2) for optimisers of weights, (leading, 2 d1 − 1, d2)
/// for optimisers in paths. Zeros before the first step. Adam's rules need both, a momentum the
/// first.
template <class T>
struct PathMoments {
  TensorView<T> first = {};
  TensorView<T> second = {};
};

/// Basis paths of float or double weights (leading, d1, d2); every position of the leading axes is
/// a problem with a skeleton of its own. Skeletons are passed in row-major order of the leading
/// axes. Different plans may run at the same time in different threads; one plan must not run twice
/// at a time. Every function throws Error(input) for arrays whose shapes are not the plan's and for
/// skeletons that do not fit.
template <class T>
class PathPlan {
 public:
  /// `weights` is the shape of W_Q and of W_K. threads ≥ 1, else Error(usage); no result depends on
  /// their number. Throws Error(input) for a shape of fewer than two axes or without rows, and
  /// Error(memory) if the plan does not fit into memory, as its functions do.
  PathPlan(const Shape& weights, int threads);

  ~PathPlan();
  PathPlan(PathPlan&&) noexcept;
  PathPlan& operator=(PathPlan&&) noexcept;

  const Shape& leading() const;
  Shape weights_shape() const;                     ///< leading, d1, d2
  Shape values_shape() const;                      ///< leading, 2 d1 − 1, d2
  Shape skeleton_shape() const;                    ///< leading, d2
  Shape moments_shape(Optimizer optimizer) const;  ///< with the momentum of sgd and si_sgd

  /// The most bytes of working memory that a call takes, arguments and results not included. The
  /// first call allocates it and later calls reuse it.
  std::int64_t workspace_bytes() const;

  /// As published (SI Alg. 1): column c goes through row c mod d1 of both matrices.
  std::vector<Skeleton> cyclic_skeletons() const;

  /// Goes through the entry of largest magnitude of each column, the first of equal ones. This
  /// keeps the skeleton's path, by which a step's ratio divides, far from 0. Throws Error(input)
  /// for numbers that are not finite.
  std::vector<Skeleton> largest_skeletons(const PathWeights<const T>& weights);

  /// Writes the values of the basis paths (leading, 2 d1 − 1, d2), each rounded once: row r < d1 is
  /// the path through row r of W_Q and the skeleton of W_K; the later rows are the paths through
  /// the skeleton of W_Q and the other rows of W_K, in order. Throws Error(input) for weights that
  /// are not finite.
  void decompose(const PathWeights<const T>& weights, const std::vector<Skeleton>& skeletons,
                 TensorView<T> values);

  /// Writes the weights with these basis paths and with `wk_skeleton` (leading, d2) as the weights
  /// of W_K in the skeleton: W_Q[i] = p/W_K[S], W_K[j] = p/W_Q[S]. W_Q is within two roundings of
  /// the weights that made the values, W_K within four. Not finite where a skeleton's path or
  /// weight is 0.
  void compose(TensorView<const T> values, TensorView<const T> wk_skeleton,
               const std::vector<Skeleton>& skeletons, const PathWeights<T>& weights);

  /// Σ G² over the gradients of all basis paths of each problem, by the formulas of `step`; not
  /// finite where a skeleton's weight is 0. Throws Error(input) for numbers that are not finite.
  std::vector<double> squared_gradients(const std::vector<Skeleton>& skeletons,
                                        const PathWeights<const T>& gradients,
                                        const PathWeights<const T>& weights);

  /// One update of the weights, in place. sgd: W − ηG. adam: the same with Adam's step. si_sgd and
  /// si_adam step on the basis paths, whose gradients are, by column, with S the skeleton's rows
  /// (SI Alg. 2, corrected: MATHEMATICS.md §9 E1 and E2),
  ///
  ///   G_p = G_Q[i] / W_K[S],   G_p = G_K[j] / W_Q[S],
  ///   G_ps = (G_Q[S] − Σ_{j≠S} G_K[j] W_K[j] / W_Q[S]) / W_K[S],
  ///
  /// and turn the steps u of the paths into steps of the weights that leave W_K[S] as it is:
  ///
  ///   R = 1 − u_ps / (W_Q[S] W_K[S]),  W_Q[S] ← W_Q[S] R,
  ///   W_Q[i] ← W_Q[i] − u / W_K[S],    W_K[j] ← (W_K[j] − u / W_Q[S]) / R.
  ///
  /// Scores then follow the same trajectory from (W_Q, W_K) and from any of its rescalings, to the
  /// last bit if the factors are signed powers of two. si_sgd_printed is Alg. 2 to the letter. The
  /// gradients (…, d1, d2) belong to a loss that depends on the weights only through the scores;
  /// their leading axes broadcast. Computed in float64, rounded once; a number beyond T becomes
  /// infinite. sgd and adam ignore the skeletons. Throws Error(usage) for options out of range,
  /// Error(input) for weights and gradients that are not finite.
  std::vector<StepSummary> step(const StepOptions& options, const std::vector<Skeleton>& skeletons,
                                const PathWeights<const T>& gradients,
                                const PathWeights<T>& weights, const PathMoments<T>& moments = {});

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace attn
