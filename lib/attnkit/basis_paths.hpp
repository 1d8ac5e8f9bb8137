#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "attnkit/error.hpp"
#include "attnkit/tensor.hpp"

/// Basis paths of query and key weights, in batches (SI; MATHEMATICS.md §6). The scores of a head see its
/// weights W_Q and W_K (d1, d2) only through the paths W_Q[i,c] W_K[j,c], which a rescaling of a
/// column, W_Q[:,c] f and W_K[:,c] / f, leaves as they are. All paths follow from 2 d1 − 1 basis
/// paths per column: those through one row of W_Q and one of W_K, the skeleton. A step of an
/// optimiser on the values of the basis paths does not see such rescalings.
namespace attn {

/// The row of W_Q and the row of W_K that the basis paths of a column go through.
struct Skeleton {
  std::vector<Index> q;  ///< by column
  std::vector<Index> k;

  Index columns() const { return static_cast<Index>(q.size()); }
  Index q_of(Index column) const { return q[static_cast<std::size_t>(column)]; }
  Index k_of(Index column) const { return k[static_cast<std::size_t>(column)]; }
};

enum class Optimizer { sgd, adam, si_sgd, si_adam, si_sgd_printed };

struct StepOptions {
  Optimizer optimizer = Optimizer::si_sgd;
  double rate = 1e-3;  ///< η > 0

  // Of adam and si_adam: m ← β₁m + (1−β₁)g, v ← β₂v + (1−β₂)g², a step of
  // η m/(1−β₁ᵗ) / (√(v/(1−β₂ᵗ)) + ε), t = `number`, counted from 1.
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  Index number = 1;

  /// A column is singular where its ratio R, by which a step multiplies the skeleton's path, is
  /// below this (> 0), or not finite. It stays as it is, moments too; or with `clips` R becomes
  /// this, unless it is infinite or not a number: such a column stays.
  double min_ratio = 1e-3;
  bool clips = false;
};

struct SingularColumn {
  Index col;
  double ratio;  ///< R before it was clipped; NaN where a skeleton's weight is 0
};

struct StepSummary {
  std::vector<SingularColumn> singular;  ///< in order; of optimisers in paths only
  /// Of R, those of singular columns too; inverted where there is none.
  double least_ratio = std::numeric_limits<double>::infinity();
  double largest_ratio = -std::numeric_limits<double>::infinity();
  /// max over columns of |Σ G_Q W_Q − Σ G_K W_K| / (Σ |G_Q W_Q| + Σ |G_K W_K|): 0 but for rounding
  /// where the loss does not change under rescalings, else paths do not follow their gradients.
  double inconsistency = 0;

  /// Takes in that of the columns from `first` on, which come after those so far.
  void add(const StepSummary& more, Index first);
};

/// W_Q and W_K of all problems, or their gradients: both (leading, d1, d2).
template <class T>
struct PathWeights {
  TensorView<T> wq;
  TensorView<T> wk;

  operator PathWeights<const T>() const requires(!std::is_const_v<T>) { return {wq, wk}; }
};

/// First and second moments of adam, (leading, 2 d1, d2), and of si_adam, (leading, 2 d1 − 1, d2):
/// zeros before the first step. The other optimisers need none.
template <class T>
struct PathMoments {
  TensorView<T> first = {};
  TensorView<T> second = {};
};

/// Basis paths of float or double weights (leading, d1, d2); every position of the leading axes is
/// a problem with a skeleton of its own. Skeletons are passed in row-major order of the leading
/// axes. Plans are independent of each other: they may run at the same time in different threads,
/// each plan once at a time. Every function throws Error(input) for arrays of other shapes than the
/// plan's and for skeletons that do not fit.
template <class T>
class PathPlan {
 public:
  /// `weights` is the shape of W_Q and of W_K. Throws Error(input) for one without two axes or
  /// without rows. Threads: ≥ 1. No result depends on their number.
  PathPlan(const Shape& weights, int threads);

  ~PathPlan();
  PathPlan(PathPlan&&) noexcept;
  PathPlan& operator=(PathPlan&&) noexcept;

  const Shape& leading() const;
  Shape weights_shape() const;                     ///< leading, d1, d2
  Shape values_shape() const;                      ///< leading, 2 d1 − 1, d2
  Shape skeleton_shape() const;                    ///< leading, d2
  Shape moments_shape(Optimizer optimizer) const;  ///< empty for an optimiser without moments

  /// Bytes that a call takes at most, beside arrays and results.
  std::int64_t workspace_bytes() const;

  /// As published (SI Alg. 1): column c goes through row c mod d1 of both matrices.
  std::vector<Skeleton> cyclic_skeletons() const;

  /// Through the entry of largest magnitude of each column, the first of several: skeleton paths
  /// far from 0, on which the ratio of a step depends. Throws Error(input) for numbers that are not
  /// finite.
  std::vector<Skeleton> largest_skeletons(const PathWeights<const T>& weights);

  /// The values of the basis paths (leading, 2 d1 − 1, d2), each rounded once: row r < d1 is the
  /// path through row r of W_Q and the skeleton of W_K; the rows after that are the paths through
  /// the skeleton of W_Q and the other rows of W_K, in their order.
  void decompose(const PathWeights<const T>& weights, const std::vector<Skeleton>& skeletons,
                 TensorView<T> values);

  /// The weights with these basis paths and `wk_skeleton` (leading, d2), the weights of W_K in the
  /// skeleton: W_Q[i] = p/W_K[S], W_K[j] = p/W_Q[S]. Rounding: two units of those that the values
  /// are of for W_Q, four for W_K. Not finite where a skeleton's path or weight is 0.
  void compose(TensorView<const T> values, TensorView<const T> wk_skeleton,
               const std::vector<Skeleton>& skeletons, const PathWeights<T>& weights);

  /// One update of the weights, in place. sgd: W − ηG. adam: the same with Adam's step. si_sgd and
  /// si_adam make theirs on the basis paths, whose gradients are, by column, with S the skeleton's
  /// rows (SI Alg. 2, corrected: MATHEMATICS.md §9 E1 and E2),
  ///
  ///   G_p = G_Q[i] / W_K[S],   G_p = G_K[j] / W_Q[S],
  ///   G_ps = (G_Q[S] − Σ_{j≠S} G_K[j] W_K[j] / W_Q[S]) / W_K[S],
  ///
  /// and pass the steps u of the paths on to the weights so that W_K[S] stays:
  ///
  ///   R = 1 − u_ps / (W_Q[S] W_K[S]),  W_Q[S] ← W_Q[S] R,
  ///   W_Q[i] ← W_Q[i] − u / W_K[S],    W_K[j] ← (W_K[j] − u / W_Q[S]) / R.
  ///
  /// So scores follow the same trajectory from (W_Q, W_K) and from any rescaling of it, to the last
  /// bit where the factors are signed powers of two. si_sgd_printed is Alg. 2 to the letter. The
  /// gradients (…, d1, d2) are of a loss that depends on the weights through the scores only; their
  /// leading axes broadcast. Computed in float64, rounded once; a number beyond T becomes infinite.
  /// Throws Error(usage) for options out of range. The skeletons of sgd and adam are not looked at.
  std::vector<StepSummary> step(const StepOptions& options, const std::vector<Skeleton>& skeletons,
                                const PathWeights<const T>& gradients,
                                const PathWeights<T>& weights, const PathMoments<T>& moments = {});

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace attn
