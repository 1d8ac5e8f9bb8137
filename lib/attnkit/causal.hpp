#pragma once

#include "attnkit/tensor.hpp"

namespace attn {

/// The keys that a position may attend to. top_left: j <= i. bottom_right: j <= i + Lk − Lq, so
/// that the last query sees every key. The two are the same if Lq = Lk.
enum class Causal { none, top_left, bottom_right };

/// The position of query 0 among the keys. Query i is at position i + first_position, for causality
/// and for every term that depends on distance. Lk − Lq for bottom_right, else 0.
inline Index first_position(Causal causal, Index rows, Index cols) {
  return causal == Causal::bottom_right ? cols - rows : 0;
}

}  // namespace attn
