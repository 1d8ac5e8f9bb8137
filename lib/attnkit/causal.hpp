#pragma once

#include "attnkit/tensor.hpp"

namespace attn {

/// Which keys a position may see. top_left: j <= i. bottom_right: j <= i + Lk − Lq, so that the
/// last query sees every key. The two are the same for Lq = Lk.
enum class Causal { none, top_left, bottom_right };

/// Where query 0 stands among the keys: query i is at position i + first_position, for causality
/// and for whatever goes by distance. Lk − Lq for bottom_right, else 0.
inline Index first_position(Causal causal, Index rows, Index cols) {
  return causal == Causal::bottom_right ? cols - rows : 0;
}

}  // namespace attn
