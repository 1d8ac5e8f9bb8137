#pragma once

#include <cstdint>
#include <span>

#include "tensor/view.hpp"

/// Sinkhorn's iterations (Sinkhorn and Knopp 1967; Cuturi 2013) on many small matrices, one in each
/// lane of a vector, and gradients through them. Dispatched at run time to the best instruction set
/// of the CPU. The bits of a problem depend on nothing but its own numbers.
namespace attn::kernel {

/// The largest range of scores (maximum less minimum) of a problem whose exponentials can be kept
/// and rescaled: e^−40 and sums of its products with potentials are normal numbers of float32.
constexpr double scaling_range = 40;

/// `count` problems of the same size: scores (count, rows, cols), finite or −inf, which forbids a
/// pair; with NaN or +inf, all results of that problem are unspecified. Marginals are finite and >=
/// 0; with a step of 0 all problems have the same marginals. Null: each row with an allowed pair
/// has the sum 1, and the columns with an allowed pair share their total evenly.
template <class T>
struct SmallProblems {
  Index count = 0;
  Index rows = 0;
  Index cols = 0;
  const T* scores = nullptr;
  const double* row_marginal = nullptr;  ///< a (rows); the next problem's is `row_step` further on
  Index row_step = 0;
  const double* col_marginal = nullptr;  ///< b (cols)
  Index col_step = 0;
  bool rows_first = false;  ///< each iteration normalises rows, then columns; else columns first
  /// ε >= 0, added to each entry of the first softmax and to each later sum. With ε > 0, problems
  /// are square, scores are finite, marginals are null, and there are no potentials.
  double eps = 0;
  const T* grad_plan = nullptr;  ///< G = ∂L/∂π (count, rows, cols), finite; null: no gradient
};

/// The results of an iteration; null: not wanted. A line whose sum is 0 has the potential −inf.
template <class T>
struct SmallResults {
  T* plan = nullptr;                ///< π (count, rows, cols)
  double* row_potential = nullptr;  ///< f (count, rows), π_ij = exp((s_ij − g_j) − f_i)
  double* col_potential = nullptr;  ///< g (count, cols)
  double* error = nullptr;  ///< (count): Σ_i |Σ_j π_ij − a_i| + Σ_j |Σ_i π_ij − b_j|, in float64
  T* grad_scores = nullptr;  ///< ∂L/∂s (count, rows, cols) through the iterations; needs G
};

/// The working memory that both functions need, aligned as float64; a gradient through `iterations`
/// keeps the factors of all of them, without one `iterations` is 0.
std::int64_t small_scaling_bytes(Index rows, Index cols, Index iterations);

/// Iterates g_j = LSE_i(s_ij − f_i) − log b_j, f_i = LSE_j(s_ij − g_j) − log a_i `iterations` >= 1
/// times, from f = 0, as products with exp(s − max s); with rows_first f before g, from g = 0. With
/// ε, the first half-step makes the softmax of each line and adds ε to it, and every later one
/// divides lines by their sum plus ε (MATHEMATICS.md §2, "Small problems"). Sets done[n] to 1 and
/// writes the results for problems whose finite scores have a range of at most scaling_range (with
/// ε: if −log ε is at most that). Sets done[n] to 0 for other problems, and for problems whose
/// potentials leave the range of T because no plan meets their marginals. Relative error of each
/// sum of a row or column of π against a or b: the error of the iteration, and rows + cols + 4
/// roundings of T. Error of ∂L/∂s: about as many roundings of T times max |G|, and more where the
/// adjoints of many iterations cancel.
void small_scaling(const SmallProblems<float>& problems, const SmallResults<float>& results,
                   Index iterations, double* scratch, std::uint8_t* done);
void small_scaling(const SmallProblems<double>& problems, const SmallResults<double>& results,
                   Index iterations, double* scratch, std::uint8_t* done);

/// The same for the problems `chosen` with any range, by logarithms of sums in float64. A line
/// whose pairs vanish has the potential −inf and no weight, which its error shows.
void small_logarithms(const SmallProblems<float>& problems, const SmallResults<float>& results,
                      Index iterations, double* scratch, std::span<const Index> chosen);
void small_logarithms(const SmallProblems<double>& problems, const SmallResults<double>& results,
                      Index iterations, double* scratch, std::span<const Index> chosen);

}  // namespace attn::kernel
