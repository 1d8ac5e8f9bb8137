#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <vector>

#include "attnkit/context.hpp"
#include "attnkit/error.hpp"
#include "attnkit/tensor.hpp"

/// Basis paths of query and key weights, in batches (SI; MATHEMATICS.md §6). The scores of a head
/// depend on its weights W_Q and W_K (d1, d2) only through the paths W_Q[i,c] W_K[j,c], which do
/// not change when a column is rescaled to W_Q[:,c] f and W_K[:,c] / f. All paths follow from 2 d1
/// − 1 basis paths per column, the paths through a chosen row of W_Q or a chosen row of W_K; these
/// two rows are the column's skeleton. An optimiser's step on the values of the basis paths does
/// not depend on such rescalings.
///
///   attn::PathInputs<double> in;  // 8 heads
///   in.wq = {wq, {8, 64, 16}};  in.grad_wq = {grad_wq, {8, 64, 16}};
///   in.wk = {wk, {8, 64, 16}};  in.grad_wk = {grad_wk, {8, 64, 16}};
///   attn::PathPlan<double> plan(attn::shapes_of(in), {.rate = 0.01}, 4);
///   in.skeletons = plan.cyclic_skeletons();
///   plan.run(in, {.wq = {wq, {8, 64, 16}}, .wk = {wk, {8, 64, 16}}});  // a step, in place
///
/// Arrays are dense and row-major, in the caller's memory. Leading axes are batch axes and
/// broadcast: they are aligned at the last one, and an axis of length 1, or an absent one, is
/// repeated. Every position of the results' leading axes is one problem, with a skeleton of its
/// own.
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
/// them. `rate`, `number` and `gradient_factor` may change from step to step: PathPlan::set_step.
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

/// The shapes that a plan is made for. `wq` and `wk` are always present; the gradients are both
/// present or both absent.
struct PathShapes {
  std::optional<Shape> wq;            ///< (…, d1, d2), d1 >= 1
  std::optional<Shape> wk;            ///< (…, d1, d2)
  std::optional<Shape> grad_wq = {};  ///< (…, d1, d2)
  std::optional<Shape> grad_wk = {};  ///< (…, d1, d2)
};

/// The arrays of one run, finite. A view without data and without axes is absent.
template <class T>
struct PathInputs {
  TensorView<const T> wq = {};
  TensorView<const T> wk = {};
  TensorView<const T> grad_wq = {};  ///< of a loss that depends on the weights only through the
  TensorView<const T> grad_wk = {};  ///< scores
  /// One for each problem, in row-major order of the leading axes. Steps of sgd and adam need none.
  std::vector<Skeleton> skeletons = {};
};

/// The shapes of arrays.
template <class T>
PathShapes shapes_of(const PathInputs<T>& inputs);

/// Where results go. A result whose view has no data is not computed. `leading` stands for the
/// leading axes of the results.
template <class T>
struct PathOutputs {
  /// The weights after a step, (leading, d1, d2). Give both or neither. For a step in place, give
  /// the arrays `wq` and `wk` of the inputs, which must then have all leading axes.
  TensorView<T> wq = {};
  TensorView<T> wk = {};
  /// The moments of the step before, which a step updates in place; zeros before the first step.
  /// (leading, 2 d1, d2) for optimisers of weights, (leading, 2 d1 − 1, d2) for optimisers in
  /// paths. Adam's rules need both, a momentum the first; other moments are not touched.
  TensorView<T> first_moment = {};
  TensorView<T> second_moment = {};

  /// The values of the basis paths of the inputs (leading, 2 d1 − 1, d2), each rounded once: row r
  /// < d1 is the path through row r of W_Q and the skeleton of W_K; the later rows are the paths
  /// through the skeleton of W_Q and the other rows of W_K, in order.
  TensorView<T> values = {};
  /// Σ G² over the gradients of all basis paths (leading), by the formulas of a step, without
  /// gradient_factor, and without columns whose skeleton has a weight of 0, which do not move.
  TensorView<double> squared_gradient = {};
};

/// Values of basis paths, of which PathPlan::compose makes weights.
template <class T>
struct PathValues {
  TensorView<const T> values;       ///< (leading, 2 d1 − 1, d2), as in PathOutputs
  TensorView<const T> wk_skeleton;  ///< (leading, d2): the weights of W_K in the skeleton
  std::vector<Skeleton> skeletons;  ///< of each problem
};

/// Basis paths of float or double weights. Different plans may run at the same time in different
/// threads; one plan must not run twice at a time.
template <class T>
class PathPlan {
 public:
  /// Throws Error(input) that names operands whose shapes do not fit, Error(usage) for options out
  /// of range, and Error(memory) if the plan does not fit into memory, as its functions do.
  PathPlan(const PathShapes& shapes, const StepOptions& options, const Context& context);

  ~PathPlan();
  PathPlan(PathPlan&&) noexcept;
  PathPlan& operator=(PathPlan&&) noexcept;

  /// Sets these options for all later steps. Throws Error(usage) for a number out of range.
  void set_step(Index number, double rate, double gradient_factor = 1);

  /// The leading axes of the results, and the shapes of arrays.
  const Shape& leading() const;
  Shape weights_shape() const;   ///< leading, d1, d2
  Shape values_shape() const;    ///< leading, 2 d1 − 1, d2
  Shape skeleton_shape() const;  ///< leading, d2
  Shape moments_shape() const;   ///< of either moment

  /// The most bytes of working memory that a call takes, arguments and results not included. The
  /// first call allocates it and later calls reuse it.
  std::int64_t workspace_bytes() const;

  /// As published (SI Alg. 1): column c goes through row c mod d1 of both matrices.
  std::vector<Skeleton> cyclic_skeletons() const;

  /// Goes through the entry of largest magnitude of each column of `wq` and `wk`, the first of
  /// equal ones. This keeps the skeleton's path, by which a step's ratio divides, far from 0.
  /// Throws the errors of `run`.
  std::vector<Skeleton> largest_skeletons(const PathInputs<T>& inputs);

  /// Computes the outputs, and returns the summary of each problem in row-major order of the
  /// leading axes; without a step, they are empty. A step of sgd is W − ηG; of adam, the same with
  /// Adam's step. si_sgd and si_adam step on the basis paths, whose gradients are, by column, with
  /// S the skeleton's rows (SI Alg. 2, corrected: MATHEMATICS.md §9 E1 and E2),
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
  /// last bit if the factors are signed powers of two. si_sgd_printed is Alg. 2 to the letter.
  /// Computed in float64, rounded once; a number beyond T becomes infinite.
  ///
  /// Throws Error(input) for arrays whose shapes are not the plan's, for numbers that are not
  /// finite, for skeletons that do not fit and for moments that are missing; Error(usage) for
  /// results of gradients that the plan does not have. After an error the outputs are unspecified
  /// and the plan can run again.
  std::vector<StepSummary> run(const PathInputs<T>& inputs, const PathOutputs<T>& outputs);

  /// Writes the weights (leading, d1, d2) with these values of basis paths: W_Q[i] = p/W_K[S],
  /// W_K[j] = p/W_Q[S]. W_Q is within two roundings of the weights that made the values, W_K within
  /// four. Not finite where a skeleton's path or weight is 0. Throws Error(input) for arrays and
  /// skeletons that do not fit.
  void compose(const PathValues<T>& values, TensorView<T> wq, TensorView<T> wk);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace attn
