#pragma once

#include <span>

#include "pass/pass.hpp"
#include "score/allowed_counts.hpp"
#include "tensor/pooled_vector.hpp"

namespace attn {

/// The first iteration of Sinkhorn with all marginals 1, which is dnas (DN 7-8, EA 5):
///
///   g_j = LSE_i s_ij,   f_i = LSE_j(s_ij − g_j),
///
/// in one pass by columns if all observers accept rows before they are normalised, else in one pass
/// for g and one for f. Writes `row` (Lq) and `col` (Lk), −inf where nothing is allowed, and shows
/// the weights to `observers`. `allowed` belongs to the scores. A sink joins the sums of f but not
/// of g, here and below. Throws whatever the scores and observers throw.
template <class T>
void first_iteration(const Scores<T>& scores, const AllowedCounts& allowed, std::span<double> row,
                     std::span<double> col, const ObserverList<T>& observers, int threads,
                     double sink = no_sink);

/// g_j = LSE_i s_ij, with the same bits as first_iteration.
template <class T>
void first_columns(const Scores<T>& scores, std::span<double> col, int threads);

/// f_i = LSE_j(s_ij − g_j) for a given g; an empty g means zeros. Shows its weights, for the chosen
/// queries only if there are `rows` (Pass::rows).
template <class T>
void rows_from_columns(const Scores<T>& scores, std::span<double> row, std::span<double> col,
                       const ObserverList<T>& observers, int threads,
                       const RowSelection* rows = nullptr, double sink = no_sink);

/// Completes the queries that a pass by columns returned (one_pass_columns, one_pass_hybrid) and
/// that have a key: computes each component's f for them, copies it to the same place of `rows`,
/// and continues with the observers of that pass.
template <class T>
void complete_rows_left(const Scores<T>& scores, const AllowedCounts& allowed,
                        const PooledVector<Index>& left, const PooledVector<Component>& components,
                        const PooledVector<std::span<double>>& rows,
                        const ObserverList<T>& observers, int threads, double sink = no_sink);

}  // namespace attn
