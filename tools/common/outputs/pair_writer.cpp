#include "common/outputs/pair_writer.hpp"

#include <algorithm>

namespace attn::tools {

namespace {

Index padded(Index length, Index chunk) { return (length + chunk - 1) / chunk * chunk; }

// The usual length, halved (not below `least`) until padding takes at most an eighth of the last
// axis.
Index fitting(Index length, Index usual, Index least) {
  if (length <= usual) return length;
  Index chunk = usual;
  while (chunk > least && padded(length, chunk) - length > length / 8) chunk /= 2;
  return chunk;
}

}  // namespace

Shape pairs_chunk(Index queries, Index keys, Index tile_queries, Index tile_keys) {
  return {fitting(queries, tile_queries, 16), fitting(keys, tile_keys, 128)};
}

double pairs_elements(Index queries, Index keys) {
  return pairs_elements(queries, keys, pairs_chunk(queries, keys));
}

double pairs_elements(Index queries, Index keys, const Shape& chunk) {
  if (queries == 0 || keys == 0) return 0;
  return static_cast<double>(padded(queries, chunk[0])) *
         static_cast<double>(padded(keys, chunk[1]));
}

}  // namespace attn::tools
