#pragma once

#include <algorithm>
#include <vector>

#include "train/language_batches.hpp"

namespace attn::train {

/// A source and its target, without special tokens.
struct TokenPair {
  std::vector<Index> source;
  std::vector<Index> target;
};

/// Cuts off tokens beyond `most`. Returns whether there were any.
inline bool cut_to(std::vector<Index>& tokens, Index most) {
  if (std::ssize(tokens) <= most) return false;
  tokens.resize(static_cast<std::size_t>(most));
  return true;
}

/// The most tokens of the items' `tokens`; 0 without items.
template <class Item>
Index most_tokens(const std::vector<Item>& items, std::vector<Index> Item::*tokens) {
  Index most = 0;
  for (const Item& item : items) most = std::max<Index>(most, std::ssize(item.*tokens));
  return most;
}

struct PairOptions {
  Index start = 0;          ///< the token <s>
  Index end = 0;            ///< the token </s>
  Index source_length = 0;  ///< the most tokens of a source
  Index length = 0;         ///< the most positions of a target, <s> included
  Index batch = 0;
};

/// Batches of a model from sequence to sequence: the source as it is; for the target y_1 … y_n, the
/// input <s>, y_1 … y_n with the targets y_1 … y_n, </s>. Tokens beyond the lengths are cut off; a
/// cut target also ends in </s>.
class PairBatches : public Batches {
 public:
  /// Requires source_length, length and batch >= 1. Throws Error(input) if there are no pairs or if
  /// a source is empty, as nothing can be attended to; a target may be empty.
  PairBatches(std::vector<TokenPair> pairs, const PairOptions& options);

  /// The number of pairs whose source or target was cut.
  Index cut() const { return cut_; }

  /// The most tokens of a source, and the most positions of a target, <s> included.
  Index longest_source() const { return most_tokens(pairs_, &TokenPair::source); }
  Index longest() const { return most_tokens(pairs_, &TokenPair::target) + 1; }

  /// The pairs by item, after cutting.
  const std::vector<TokenPair>& pairs() const { return pairs_; }

 protected:
  SlotBatch slot(std::span<const Index> items, const std::optional<Epoch>& epoch) const override;

 private:
  std::vector<TokenPair> pairs_;
  PairOptions options_;
  Index cut_ = 0;
};

}  // namespace attn::train
