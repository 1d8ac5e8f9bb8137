#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

#include "score/matrix_source.hpp"
#include "score/scores.hpp"
#include "tensor/pooled_vector.hpp"

/// Lines, including lines of mass 0, as completed by the potentials of the other side: how a line
/// would spread its mass if it had some.
namespace attn {

/// A line with a smaller sum counts as a line without mass, as its weights in T are too coarse, or
/// 0.
template <class T>
constexpr double least_line_mass() {
  return static_cast<double>(std::numeric_limits<T>::min()) / std::numeric_limits<T>::epsilon();
}

/// The other side's potentials, by which the lines of a side with these `masses` are completed. If
/// the side has no mass at all, nothing has arrived at the other one, whose potentials are all
/// −inf: then 0 at its lines with mass, so that a completed line is finite if mass could go
/// anywhere.
PooledVector<double> reached_potentials(std::span<const double> other,
                                        std::span<const double> masses,
                                        std::span<const double> other_masses);

/// Whether all masses are 0.
bool is_empty(std::span<const double> masses);

/// LSE_j(s_ij − g_j) of all rows, the f_i that gives the row the sum 1; −inf for a row without a
/// pair that is allowed and whose column is open. One pass.
template <class T>
PooledVector<double> completed_rows(const Scores<T>& scores, std::span<const double> col,
                                    int threads);

/// LSE_i(s_ij − f_i) of all columns, in the same way.
template <class T>
PooledVector<double> completed_cols(const Scores<T>& scores, std::span<const double> row,
                                    int threads);

/// The means Σ_j q_ij (G_ij + v_j) with q_ij = exp((s_ij − g_j) − LSE_j(s_ij − g_j)), by which row
/// i spreads its mass. G (Lq, Lk) and v (Lk) are finite; null and empty: 0. NaN for a row without
/// an open pair. Two passes.
template <class T>
PooledVector<double> row_means(const Scores<T>& scores, std::span<const double> col,
                               const MatrixSource<T>* g, std::span<const double> v, int threads);

/// The means Σ_i q_ij (G_ij + u_i) of columns, q_ij = exp((s_ij − LSE_i(s_ij − f_i)) − f_i).
template <class T>
PooledVector<double> col_means(const Scores<T>& scores, std::span<const double> row,
                               const MatrixSource<T>* g, std::span<const double> u, int threads);

/// Bytes that any of these functions takes in addition to the scores, G and its result.
std::int64_t completed_lines_bytes(Index rows, Index cols, std::size_t element_size, int threads);

}  // namespace attn
