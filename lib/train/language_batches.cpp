#include "train/language_batches.hpp"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

#include "attnkit/error.hpp"
#include "tensor/random.hpp"

namespace attn::train {
namespace {

constexpr double replaced_by_mask = 0.8;
constexpr double replaced_by_any = 0.1;

// The tokens [segment·length, (segment + 1)·length), cut at the end.
std::vector<Index> segment_of(std::span<const Index> tokens, Index segment, Index length) {
  const auto first = static_cast<std::size_t>(segment * length);
  const auto count = std::min(static_cast<std::size_t>(length), tokens.size() - first);
  const std::span<const Index> part = tokens.subspan(first, count);
  return {part.begin(), part.end()};
}

// Numbers of a random stream, one by one.
class Draws {
 public:
  Draws(const RandomStream& stream, Index first) : stream_(stream), next_(first) {}

  double operator()() {
    double u = 0;
    stream_.uniform(next_++, 1, &u);
    return u;
  }

 private:
  RandomStream stream_;
  Index next_;
};

// At most 1 + K + (T − M + 1) + 2M for K spans of M tokens together.
constexpr Index most_draws(Index length) { return 3 * length + 2; }

// Σ_n 1/n, and the mean of min(n, most) where p(n) ∝ 1/n.
constexpr double inverse_lengths = 1 + 1.0 / 2 + 1.0 / 3;
double mean_span(Index most) {
  double sum = 0;
  for (Index n = 1; n <= longest_span; ++n) {
    sum += static_cast<double>(std::min(n, most)) / static_cast<double>(n);
  }
  return sum / inverse_lengths;
}

Index draw_span(Draws& draw, Index most) {
  double rest = draw() * inverse_lengths;
  Index n = 1;
  while (n < longest_span && rest >= 1 / static_cast<double>(n)) {
    rest -= 1 / static_cast<double>(n);
    ++n;
  }
  return std::min(n, most);
}

// The positions of `count` tokens that are masked, in order.
std::vector<Index> masked_positions(Index count, Draws& draw) {
  const double expected = masked_share * static_cast<double>(count) / mean_span(count);
  std::vector<Index> spans(static_cast<std::size_t>(expected + draw()));
  for (Index& span : spans) span = draw_span(draw, count);
  const Index masked = std::accumulate(spans.begin(), spans.end(), Index{0});
  // At most one span precedes each token that is not masked, and one follows the last. There are
  // enough such places: K <= 0.092 T + 1, and K = 1 for T < 11, so that M + K − 1 <= T.
  const Index places = count - masked + 1;
  std::vector<Index> positions;
  Index at = 0;
  for (Index place = 0; place < places; ++place, ++at) {
    // Selection sampling (Knuth, The Art of Computer Programming, 3.4.2, algorithm S).
    if (draw() * static_cast<double>(places - place) >= static_cast<double>(spans.size())) continue;
    for (Index n = 0; n < spans.back(); ++n) positions.push_back(at++);
    spans.pop_back();
  }
  return positions;
}

Index replacement(Index token, const MaskTokens& masks, Draws& draw) {
  const double choice = draw();
  const double u = draw();
  if (choice < replaced_by_mask) return masks.mask;
  if (choice >= replaced_by_mask + replaced_by_any) return token;
  const auto tokens = static_cast<double>(masks.vocabulary - masks.first_random);
  return masks.first_random + static_cast<Index>(u * tokens);
}

// The special tokens of [CLS] A [SEP] B [SEP].
constexpr Index order_specials = 3;

static_assert(least_ordered_length == order_specials + 2);

// The tokens of A, and of B, in an item of `length` tokens.
constexpr Index half_of(Index length) { return (length - order_specials) / 2; }

Index masked_items(Index tokens, Index length, bool ordered) {
  if (ordered && length < least_ordered_length) {
    throw Error(Failure::usage, "the length is " + std::to_string(length) +
                                    "; two segments with [CLS] and [SEP] need at least " +
                                    std::to_string(least_ordered_length));
  }
  if (ordered && tokens < 2) {
    throw Error(Failure::input, "the text has " + std::to_string(tokens) +
                                    " tokens; two segments in order need at least 2");
  }
  if (tokens == 0) throw Error(Failure::input, "the text has no tokens");
  // A stretch of one token has no halves.
  return ordered ? (tokens - 2) / (2 * half_of(length)) + 1 : (tokens - 1) / length + 1;
}

// [CLS] A [SEP] B [SEP] of two halves, or swapped.
std::vector<Index> ordered_pair(const std::vector<Index>& stretch, bool swapped,
                                const OrderTokens& specials) {
  const auto half = static_cast<std::ptrdiff_t>(stretch.size() / 2);
  const auto a = stretch.begin();
  const auto b = stretch.begin() + half;
  std::vector<Index> pair = {specials.first};
  pair.insert(pair.end(), swapped ? b : a, (swapped ? b : a) + half);
  pair.push_back(specials.separator);
  pair.insert(pair.end(), swapped ? a : b, (swapped ? a : b) + half);
  pair.push_back(specials.separator);
  return pair;
}

// Neighbouring tokens of an item that are masked independently of others.
struct Part {
  Index first = 0;
  Index count = 0;
};

std::vector<Part> masked_parts(Index length, bool ordered) {
  if (!ordered) return {{0, length}};
  const Index half = half_of(length);
  return {{1, half}, {1 + half + 1, half}};
}

}  // namespace

TokenRows padded_rows(const std::vector<std::vector<Index>>& sequences) {
  std::size_t longest = 0;
  for (const auto& sequence : sequences) longest = std::max(longest, sequence.size());
  TokenRows rows;
  rows.sequences = {std::ssize(sequences), static_cast<Index>(longest)};
  bool whole = true;
  for (const auto& sequence : sequences) {
    rows.lengths.push_back(std::ssize(sequence));
    rows.tokens.insert(rows.tokens.end(), sequence.begin(), sequence.end());
    rows.tokens.resize(rows.lengths.size() * longest, padding_token);
    whole = whole && sequence.size() == longest;
  }
  if (whole) rows.lengths.clear();
  return rows;
}

Targets row_targets(const std::vector<std::vector<Index>>& targets, const TokenRows& rows) {
  Targets found;
  for (std::size_t n = 0; n < targets.size(); ++n) {
    const Index first = static_cast<Index>(n) * rows.sequences.length;
    for (std::size_t i = 0; i < targets[n].size(); ++i) {
      found.rows.push_back(first + static_cast<Index>(i));
      found.tokens.push_back(targets[n][i]);
    }
  }
  return found;
}

CausalBatches::CausalBatches(std::vector<Index> tokens, Index length, Index batch)
    : Batches((std::ssize(tokens) - 2 + length) / length, batch),
      tokens_(std::move(tokens)),
      length_(length) {
  if (tokens_.size() < 2) {
    throw Error(Failure::input, "the text has " + std::to_string(tokens_.size()) +
                                    " tokens; a causal language model needs at least 2");
  }
}

SlotBatch CausalBatches::slot(std::span<const Index> items, const std::optional<Epoch>&) const {
  const std::span<const Index> tokens = tokens_;
  std::vector<std::vector<Index>> inputs;
  std::vector<std::vector<Index>> targets;
  for (const Index item : items) {
    inputs.push_back(segment_of(tokens.first(tokens.size() - 1), item, length_));
    targets.push_back(segment_of(tokens.subspan(1), item, length_));
  }
  SlotBatch slot;
  slot.input = padded_rows(inputs);
  slot.targets = row_targets(targets, slot.input);
  return slot;
}

MaskedBatches::MaskedBatches(std::vector<Index> tokens, Index length, Index batch,
                             const MaskTokens& masks, const std::optional<OrderTokens>& order)
    : Batches(masked_items(std::ssize(tokens), length, order.has_value()), batch),
      tokens_(std::move(tokens)),
      stretch_(order ? 2 * half_of(length) : length),
      masks_(masks),
      order_(order) {}

SlotBatch MaskedBatches::slot(std::span<const Index> items,
                              const std::optional<Epoch>& epoch) const {
  const RandomStream spans =
      epoch ? RandomStream(epoch->seed, "masked spans") : RandomStream(0, "evaluated spans");
  const RandomStream swaps =
      epoch ? RandomStream(epoch->seed, "swapped segments") : RandomStream(0, "evaluated order");
  const auto segment_number = [&](Index item) {
    return item + (epoch ? epoch->number * this->items() : 0);
  };
  SlotBatch slot;
  std::vector<std::vector<Index>> inputs;
  for (const Index item : items) {
    inputs.push_back(segment_of(tokens_, item, stretch_));
    if (!order_) continue;
    const bool swapped = Draws(swaps, segment_number(item))() < 0.5;
    inputs.back() = ordered_pair(inputs.back(), swapped, *order_);
    slot.swapped.push_back(swapped ? 1 : 0);
  }
  slot.input = padded_rows(inputs);
  for (std::size_t n = 0; n < items.size(); ++n) {
    const std::vector<Part> parts = masked_parts(std::ssize(inputs[n]), order_.has_value());
    const Index row = static_cast<Index>(n) * slot.input.sequences.length;
    Index number = segment_number(items[n]) * std::ssize(parts);
    for (const Part& part : parts) {
      Draws draw(spans, number++ * most_draws(stretch_ / std::ssize(parts)));
      for (const Index position : masked_positions(part.count, draw)) {
        const Index masked = row + part.first + position;
        Index& token = slot.input.tokens[static_cast<std::size_t>(masked)];
        slot.targets.rows.push_back(masked);
        slot.targets.tokens.push_back(token);
        token = replacement(token, masks_, draw);
      }
    }
  }
  return slot;
}

}  // namespace attn::train
