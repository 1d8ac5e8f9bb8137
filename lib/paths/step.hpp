#pragma once

#include "paths/skeleton.hpp"

namespace attn {

/// The matrices of a step, of one shape (d1, d2).

template <class T>
struct StepMatrices {
  MatrixView<T> wq;  ///< updated in place
  MatrixView<T> wk;
  MatrixView<const T> grad_wq;  ///< of a loss that depends on the weights only through the scores
  MatrixView<const T> grad_wk;
  /// m and v, updated in place: (2 d1, d2), the rows of W_Q and then of W_K, or in paths
  /// (2 d1 − 1, d2), as the basis (basis.hpp). Zeros before the first step. Adam's rules use both,
  /// a momentum the first.
  MatrixView<T> first_moment = {};
  MatrixView<T> second_moment = {};
};

/// Whether the optimizer steps in paths, with a skeleton and ratios; whether it is Adam's rule,
/// which keeps two moments; whether its options require a first moment.
bool steps_in_paths(Optimizer optimizer);
bool keeps_moments(Optimizer optimizer);
bool keeps_first_moment(const StepOptions& options);

/// Σ G² over the gradients of the basis paths, as in `step`, without the columns whose skeleton has
/// a 0, as these do not move. Terms are added in the order of rows, column by column.
template <class T>
double squared_path_gradients(const Skeleton& skeleton, const StepMatrices<const T>& matrices);

/// One update. sgd: W − ηG. adam: the same with Adam's step. si_sgd and si_adam step on the basis
/// paths, whose gradients are, by column, with S the skeleton's rows (SI Alg. 2, corrected:
/// MATHEMATICS.md §9 E1 and E2),
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
/// last bit if the factors are signed powers of two: every operation then has the same significand.
/// si_sgd_printed is Alg. 2 to the letter: no W_K[S], and the step of W_K[j] lacks its last
/// division by W_Q[S].
///
/// Arithmetic and sums are in float64 (a sum over d1 rows: d1 roundings of its terms' magnitudes);
/// stored results are rounded once. The bits depend neither on `threads` nor on the range of
/// columns. Results beyond T are infinite. A column whose skeleton has a 0 is singular.
template <class T>
StepSummary step(const StepOptions& options, const Skeleton& skeleton,
                 const StepMatrices<T>& matrices, int threads);

}  // namespace attn
