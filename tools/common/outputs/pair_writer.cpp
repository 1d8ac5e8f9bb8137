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

Shape pairs_chunk(Index queries, Index keys) {
  return {fitting(queries, 64, 16), fitting(keys, 256, 128)};
}

double pairs_elements(Index queries, Index keys) {
  if (queries == 0 || keys == 0) return 0;
  const Shape chunk = pairs_chunk(queries, keys);
  return static_cast<double>(padded(queries, chunk[0])) *
         static_cast<double>(padded(keys, chunk[1]));
}

}  // namespace attn::tools
