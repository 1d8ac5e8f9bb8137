#pragma once

#include <span>

#include "score/scores.hpp"

namespace attn {

/// g_j = LSE_i(s_ij − f_i) − log b_j, −inf where nothing is allowed. `row` is f (Lq), −inf masks a
/// row; empty: all 0. `log_marginal` is log b (Lk); empty: all 0. Writes `col` (Lk). Throws
/// whatever the scores throw.
///
/// Runs a pass by column panels, except if this thread's ranks have neighbouring rows and the bits
/// of a score do not depend on the tile (Energy::same_in_any_range). Each rank then reads only its
/// rows, and sums of some columns go from rank to rank while others are computed. The bits are the
/// same.
template <class T>
void column_potentials(const Scores<T>& scores, std::span<double> row, std::span<double> col,
                       std::span<const double> log_marginal, int threads);

}  // namespace attn
