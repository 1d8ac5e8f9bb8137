#pragma once

#include "common/heads.hpp"
#include "pass/rank_rows.hpp"

namespace attn::tools {

/// How ranks share the rows of passes over heads that they divide: neighbouring ones, so that each
/// reads and may hold its rows of ready-made scores, masks and biases only (HeadReader), if one of
/// these has a row for each query and there are at least 96 queries for each rank.
RankRows ranks_by_matrix(const AttentionInput& input, Index ranks);

/// Adds what that changes: rows of matrices, and messages of sums by column.
void take_ranks(const AttentionInput& input, std::size_t element_size, const RankRows& ranks,
                HeadNeeds& needs);

}  // namespace attn::tools
