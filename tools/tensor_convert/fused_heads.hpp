#pragma once

#include "tensor/shape.hpp"

namespace attn::tools {

/// How the outputs of the projections of q, k and v stand in one stored matrix. With H heads of
/// queries, G of keys and d channels each, it has (H + 2G)d outputs.
enum class Fusion {
  none,    ///< each projection is a matrix
  blocks,  ///< H heads of q, G of k, G of v: qkv_proj
  groups,  ///< for each of the G heads of k: its H/G heads of q, then k, then v: query_key_value
  c_attn,  ///< blocks, transposed in GPT-2; groups or blocks in others, by their model_type
};

/// The places of the heads of one projection among the outputs of a stored matrix: head h begins at
/// first + (h / run) * stride + (h % run) * size.
struct HeadPlaces {
  Index first = 0;
  Index size = 0;    ///< d
  Index run = 1;     ///< heads that follow one another
  Index stride = 0;  ///< from the first head of one run to that of the next

  Index at(Index head) const { return first + head / run * stride + head % run * size; }
};

/// The places of the heads of q (part 0), k (1) or v (2). `fusion` is blocks or groups.
HeadPlaces fused_places(Fusion fusion, Index part, Index heads, Index kv_heads, Index size);

}  // namespace attn::tools
