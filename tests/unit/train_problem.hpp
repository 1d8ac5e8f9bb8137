#pragma once

// Small models and batches for the tests of lib/train.

#include <algorithm>
#include <random>
#include <vector>

#include "train/batch_pass.hpp"
#include "train/transformer.hpp"

namespace attn::testing {

inline train::LayerOptions small_layer() {
  train::LayerOptions layer;
  layer.width = 6;
  layer.heads = 2;
  layer.inner = 5;
  // Large enough that attention is far from uniform.
  layer.deviation = 0.7;
  layer.out_deviation = 0.5;
  return layer;
}

inline train::TransformerOptions small_stack(Scheme scheme, bool causal) {
  train::TransformerOptions options;
  options.decoder_layers = 2;
  options.vocabulary = 9;
  options.length = 8;
  options.layer = small_layer();
  options.decoder = {{scheme, false, 3}, causal, 0.3, false};
  return options;
}

inline train::TransformerOptions small_pair(Scheme encoder) {
  train::TransformerOptions options = small_stack(Scheme::unas, true);
  options.encoder_layers = 2;
  options.source_vocabulary = 7;
  options.source_length = 9;
  options.encoder = {{encoder, true, 3}, false, 0.6, false};
  return options;
}

/// One sequence a slot, or for more than eight as many as slot_ranges says. Targets are two of
/// three positions; `whole` batches have no lengths and one length.
inline std::vector<train::SlotBatch> token_slots(const train::TransformerOptions& options,
                                                 const std::vector<Index>& lengths, bool whole) {
  std::mt19937_64 random(17);
  const auto fill = [&](train::TokenRows& rows, Index count, Index first, Index extra,
                        Index vocabulary) {
    Index longest = 0;
    for (Index n = 0; n < count; ++n) {
      longest = std::max(longest, lengths[static_cast<std::size_t>(first + n)] + extra);
    }
    rows.sequences = {count, longest};
    for (Index n = 0; n < count; ++n) {
      const Index length = whole ? longest : lengths[static_cast<std::size_t>(first + n)] + extra;
      if (!whole) rows.lengths.push_back(length);
      for (Index i = 0; i < longest; ++i) {
        const auto token = static_cast<Index>(random() % static_cast<std::uint64_t>(vocabulary));
        rows.tokens.push_back(i < length ? token : train::padding_token);
      }
    }
  };
  std::vector<train::SlotBatch> slots;
  for (const train::SlotRange& range : train::slot_ranges(static_cast<Index>(lengths.size()))) {
    train::SlotBatch slot;
    if (options.encoder_layers > 0) {
      fill(slot.source, range.count, range.first, 1, options.source_vocabulary);
    }
    fill(slot.input, range.count, range.first, 0, options.vocabulary);
    for (Index r = 0; r < slot.input.sequences.rows(); ++r) {
      if (slot.input.tokens[static_cast<std::size_t>(r)] == train::padding_token || r % 3 == 1)
        continue;
      slot.targets.rows.push_back(r);
      slot.targets.tokens.push_back(
          static_cast<Index>(random() % static_cast<std::uint64_t>(options.vocabulary)));
    }
    slots.push_back(slot);
  }
  return slots;
}

/// Slots of one sequence each, without a source, as one slot that is padded to `length`.
inline train::SlotBatch merged(const std::vector<train::SlotBatch>& slots, Index length) {
  train::SlotBatch all;
  all.input.sequences = {static_cast<Index>(slots.size()), length};
  for (const train::SlotBatch& slot : slots) {
    const Index first = static_cast<Index>(all.input.tokens.size());
    for (std::size_t n = 0; n < slot.targets.rows.size(); ++n) {
      all.targets.rows.push_back(first + slot.targets.rows[n]);
      all.targets.tokens.push_back(slot.targets.tokens[n]);
    }
    all.input.lengths.push_back(slot.input.sequences.length);
    all.input.tokens.insert(all.input.tokens.end(), slot.input.tokens.begin(),
                            slot.input.tokens.end());
    all.input.tokens.resize(static_cast<std::size_t>(first + length), train::padding_token);
  }
  return all;
}

}  // namespace attn::testing
