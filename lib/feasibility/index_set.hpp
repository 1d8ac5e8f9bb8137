#pragma once

#include <cstdint>

#include "tensor/pooled_vector.hpp"
#include "tensor/shape.hpp"

namespace attn {

/// A set of indices in [0, size) that only shrinks, for visiting each index once: a tree of bits,
/// 64 per node, so that `next` and `remove` take O(log₆₄ size).
class IndexSet {
 public:
  using Word = std::uint64_t;
  static constexpr Index word_bits = 64;

  /// All of [0, size).
  explicit IndexSet(Index size);

  Index size() const { return size_; }
  bool contains(Index i) const {
    return ((levels_[0][static_cast<std::size_t>(i / word_bits)] >> (i % word_bits)) & 1U) != 0;
  }
  void remove(Index i);

  /// The first member >= from, or size().
  Index next(Index from) const;

  /// Bit i % 64 of word i / 64 is set if i is in the set; bits past the last index are 0.
  const PooledVector<Word>& words() const { return levels_[0]; }

 private:
  Index size_;
  // A bit of level l + 1 is set if its word of level l is not 0.
  PooledVector<PooledVector<Word>> levels_;
};

}  // namespace attn
