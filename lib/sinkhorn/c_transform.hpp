#pragma once

#include <span>

#include "score/scores.hpp"

namespace attn {

/// f_i = max_j (s_ij − g_j) (Lq), the least f for which no s_ij exceeds f_i + g_j: with s = −C the
/// negative of Kantorovich's c-transform, min_j (C_ij − (−g_j)). A g of −inf leaves its column out.
/// The only roundings are those of the scores and of one subtraction. Throws whatever the scores
/// throw.
template <class T>
void c_transform(const Scores<T>& scores, std::span<const double> col, std::span<double> row,
                 int threads);

/// g_j = max_i (s_ij − f_i) for the columns whose g is −inf; the others stay. Nothing is read
/// without such a column.
template <class T>
void complete_columns(const Scores<T>& scores, std::span<const double> row, std::span<double> col,
                      int threads);

/// The range of the scores of some pairs; least > largest if there are none.
struct ScoreRange {
  double least = 0;  ///< −inf if one of the pairs is forbidden
  double largest = 0;
};

/// The range over the pairs whose row and column have a marginal > 0.
template <class T>
ScoreRange score_range(const Scores<T>& scores, std::span<const double> row_marginal,
                       std::span<const double> col_marginal, int threads);

}  // namespace attn
