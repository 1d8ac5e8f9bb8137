#pragma once

#include <optional>
#include <span>
#include <vector>

#include "train/batches.hpp"
#include "train/transformer.hpp"

namespace attn::train {

/// Sequences as rows, padded with padding_token to the length of the longest. `lengths` is empty if
/// all have this length. Requires at least one sequence.
TokenRows padded_rows(const std::vector<std::vector<Index>>& sequences);

/// Position i of sequence n in `rows` has the target targets[n][i].
Targets row_targets(const std::vector<std::vector<Index>>& targets, const TokenRows& rows);

/// Batches of sequences of tokens; a slot is padded to its own longest sequence.
using Batches = BatchesOf<SlotBatch>;

/// Batches of a causal language model. Segment s has the inputs x_t, s·length <= t < (s +
/// 1)·length, with the targets x_{t+1}; each segment is read without the segments before. Every
/// token but the first is a target once; the last segment may be shorter.
class CausalBatches : public Batches {
 public:
  /// Requires length >= 1 and batch >= 1. Throws Error(input) for fewer than two tokens.
  CausalBatches(std::vector<Index> tokens, Index length, Index batch);

 protected:
  SlotBatch slot(std::span<const Index> items, const std::optional<Epoch>& epoch) const override;

 private:
  std::vector<Index> tokens_;
  Index length_;
};

/// The expected share of masked tokens, and the longest masked span.
inline constexpr double masked_share = 0.15;
inline constexpr Index longest_span = 3;

/// The tokens in place of masked ones.
struct MaskTokens {
  Index mask = 0;          ///< [MASK]
  Index first_random = 0;  ///< random tokens are in [first_random, vocabulary)
  Index vocabulary = 0;
};

/// The least length of an item with two segments: [CLS] A [SEP] B [SEP].
inline constexpr Index least_ordered_length = 5;

/// The special tokens around two segments.
struct OrderTokens {
  Index first = 0;      ///< [CLS]
  Index separator = 0;  ///< [SEP]
};

/// Batches of a masked language model. A segment has `length` tokens; the last may be shorter.
/// Spans of T tokens are masked, each of n = 1, 2, 3 tokens with probability p(n) ∝ 1/n, cut to T.
/// Their number is 0.15·T over the mean of n, rounded up or down at random such that the expected
/// share is 15%. All placements in which no two spans touch are equally likely. Each masked token
/// by itself becomes [MASK] with probability 0.8, a uniform random token with 0.1, and is kept with
/// 0.1. The masked tokens are the targets; a short segment can have none.
///
/// The masks are a function of (seed, epoch, segment) alone, by RandomStream(seed, "masked spans");
/// in evaluation, of the segment alone, for every seed.
///
/// With OrderTokens the model also learns the order of two segments (EA). An item is a stretch of
/// 2h tokens, h = ⌊(length − 3)/2⌋; the last may be shorter, and a last odd token is left out. Its
/// halves A and B are arranged as [CLS] A [SEP] B [SEP] or, with probability ½, swapped as [CLS] B
/// [SEP] A [SEP]; SlotBatch::swapped says which. Both have the same length, which reveals nothing.
/// The tokens of each half are masked like a segment; special tokens never are. Swaps are functions
/// of the same arguments as masks, by RandomStream(seed, "swapped segments").
class MaskedBatches : public Batches {
 public:
  /// Requires length >= 1, batch >= 1 and first_random < vocabulary. Throws Error(input) if there
  /// are no tokens; with `order` for fewer than two, and Error(usage) for a length below 5.
  MaskedBatches(std::vector<Index> tokens, Index length, Index batch, const MaskTokens& masks,
                const std::optional<OrderTokens>& order = std::nullopt);

 protected:
  SlotBatch slot(std::span<const Index> items, const std::optional<Epoch>& epoch) const override;

 private:
  std::vector<Index> tokens_;
  Index stretch_;  // tokens of the text in an item
  MaskTokens masks_;
  std::optional<OrderTokens> order_;
};

}  // namespace attn::train
