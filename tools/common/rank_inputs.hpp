#pragma once

#include "common/heads.hpp"
#include "pass/rank_rows.hpp"

namespace attn::tools {

/// What each of several ranks has of a head that they divide.
struct RankInputs {
  RankRows rows;         ///< how they share the rows of passes
  bool queries = false;  ///< each reads and holds its rows of q only
};

/// Ranks have neighbouring rows, so that each reads and may hold its rows of ready-made scores,
/// masks and biases only (HeadReader), if ranks_divide the queries and one of these has a row for
/// each query.
///
/// Of q, too, under the energies scaled-dot and dot, if `by_rows` says that nothing needs queries
/// of other ranks. Not if q is projected; nor for its sake alone if causality makes rows differ in
/// length.
RankInputs rank_inputs(const AttentionInput& input, Index ranks, bool by_rows);

/// Whether energies are products of q and k: those of scaled-dot and dot, also of bfloat16 numbers.
bool has_product_energy(const AttentionInput& input);

/// Adds what that changes: rows of matrices and of q, messages of sums by column, and that k and v
/// may be read as they are needed where each rank has rows of q. `makes_out`: of v.
void take_ranks(const AttentionInput& input, std::size_t element_size, const RankInputs& ranks,
                bool makes_out, HeadNeeds& needs);

}  // namespace attn::tools
