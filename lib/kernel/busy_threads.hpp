#pragma once

#include "tensor/shape.hpp"

namespace attn::kernel {

/// The parts into which the steps of an item are cut for threads that share it.
struct ItemParts {
  Index fewest = 1;  ///< of any step that takes a good part of the time
  Index most = 1;    ///< of any step: more threads have nothing to do
};

/// The part in (0, 1] of the time of `threads` threads in which they work on `count` equal items,
/// if a thread takes one at a time; 1 for no items.
inline double busy_part(Index count, int threads) {
  if (count < 1 || threads < 1) return 1;
  const Index rounds = (count + threads - 1) / threads;
  return static_cast<double>(count) / static_cast<double>(rounds * threads);
}

/// Whether threads are to take one of `count` items each; else all of them share one item after
/// the other. They take one each if there are at least as many items as threads, or if fewer, but
/// more than one, keep nearly as many of them at work as the parts of one item would. No result
/// depends on it.
inline bool take_items_each(Index count, const ItemParts& parts, int threads) {
  // Threads that share an item wait for each other.
  constexpr double worth_sharing = 0.85;
  return count >= threads || (count > 1 && busy_part(count, threads) >=
                                               worth_sharing * busy_part(parts.fewest, threads));
}

}  // namespace attn::kernel
