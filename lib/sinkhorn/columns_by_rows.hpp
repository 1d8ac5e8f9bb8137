#pragma once

#include <span>

#include "score/scores.hpp"

namespace attn {

/// Whether complete_columns_by_rows can be called: this thread's ranks have neighbouring rows, and
/// the bits of a score do not depend on the tile (Energy::same_in_any_range).
template <class T>
bool completes_columns_by_rows(const Scores<T>& scores);

/// g_j = LSE_i(s_ij − f_i) − log b_j with the bits of a pass by column panels, −inf where nothing
/// is allowed. Each rank reads its rows only, and the sums of some columns go from rank to rank,
/// while others are computed. `row` is f (Lq), −inf masks a row; empty: all 0. `log_marginal` is
/// log b (Lk); empty: all 0. Writes `col` (Lk). Throws whatever the scores throw.
template <class T>
void complete_columns_by_rows(const Scores<T>& scores, std::span<const double> row,
                              std::span<double> col, std::span<const double> log_marginal,
                              int threads);

}  // namespace attn
