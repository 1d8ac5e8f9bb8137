#include "shared/weights_writer.hpp"

#include <algorithm>

namespace attn::tools {

Shape weights_chunk(Index queries, Index keys) {
  constexpr Index chunk_rows = 64;
  constexpr Index chunk_cols = 512;
  return {std::min(chunk_rows, queries), std::min(chunk_cols, keys)};
}

}  // namespace attn::tools
