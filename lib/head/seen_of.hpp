#pragma once

#include "score/seen_rows.hpp"

namespace attn {

struct AttentionSources;

/// The seen rows of a problem, by causality, window, padding and packing, in O(log Lq), or O(log
/// Lq) for each packed sequence; masks and biases are not read. All own rows under the scheme
/// transport, whose keys take part unseen, and if results show all pairs.
struct SeenOfProblem {
  SeenRows queries, keys;
};
SeenOfProblem seen_of(const AttentionSources& sources, Index problem);

}  // namespace attn
