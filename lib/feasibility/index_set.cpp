#include "feasibility/index_set.hpp"

#include <bit>

namespace attn {

IndexSet::IndexSet(Index size) : size_(size) {
  for (Index count = size;;) {
    const Index words = (count + word_bits - 1) / word_bits;
    levels_.emplace_back(static_cast<std::size_t>(words), ~Word{0});
    if (count % word_bits != 0) levels_.back().back() >>= word_bits - count % word_bits;
    if (words <= 1) break;
    count = words;
  }
}

void IndexSet::remove(Index i) {
  for (auto& level : levels_) {
    Word& word = level[static_cast<std::size_t>(i / word_bits)];
    word &= ~(Word{1} << (i % word_bits));
    if (word != 0) return;
    i /= word_bits;
  }
}

Index IndexSet::next(Index from) const {
  std::size_t level = 0;
  // Up until a word has a bit at or after `from`, then down along the first bits.
  for (;; ++level, from = from / word_bits + 1) {
    if (level == levels_.size()) return size_;
    const auto at = static_cast<std::size_t>(from / word_bits);
    if (at >= levels_[level].size()) return size_;
    const Word word = levels_[level][at] & (~Word{0} << (from % word_bits));
    if (word == 0) continue;
    from = from / word_bits * word_bits + std::countr_zero(word);
    break;
  }
  for (; level > 0; --level) {
    from = from * word_bits + std::countr_zero(levels_[level - 1][static_cast<std::size_t>(from)]);
  }
  return from;
}

}  // namespace attn
