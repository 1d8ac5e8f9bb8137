#pragma once

#include "tensor/shape.hpp"

namespace attn {

/// The number of parts into which the steps of an item are cut for threads that share the item.
struct ItemParts {
  Index fewest = 1;  ///< the least of any step that takes a good part of the time
  Index most = 1;    ///< the most of any step; further threads have nothing to do
};

/// The share in (0, 1] of their time that `threads` threads are busy with `count` equal items, one
/// item per thread at a time; 1 for no items.
inline double busy_part(Index count, int threads) {
  if (count < 1 || threads < 1) return 1;
  const Index rounds = (count + threads - 1) / threads;
  return static_cast<double>(count) / static_cast<double>(rounds * threads);
}

/// Whether threads take one of `count` items each; else all threads share one item after the other.
/// They take one each in two cases:
///
/// - there are at least as many items as threads;
/// - there are several items, and these keep nearly as many threads busy as the parts of one item.
///
/// No result depends on it.
inline bool take_items_each(Index count, const ItemParts& parts, int threads) {
  // Threads that share an item wait for each other.
  constexpr double worth_sharing = 0.85;
  return count >= threads || (count > 1 && busy_part(count, threads) >=
                                               worth_sharing * busy_part(parts.fewest, threads));
}

}  // namespace attn
