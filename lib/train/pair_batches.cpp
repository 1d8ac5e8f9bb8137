#include "train/pair_batches.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "attnkit/error.hpp"

namespace attn::train {
PairBatches::PairBatches(std::vector<TokenPair> pairs, const PairOptions& options)
    : Batches(std::ssize(pairs), options.batch), pairs_(std::move(pairs)), options_(options) {
  if (pairs_.empty()) throw Error(Failure::input, "there are no pairs");
  for (std::size_t n = 0; n < pairs_.size(); ++n) {
    TokenPair& pair = pairs_[n];
    if (pair.source.empty()) {
      throw Error(Failure::input, "the source of pair " + std::to_string(n) + " is empty");
    }
    const bool source = cut_to(pair.source, options_.source_length);
    const bool target = cut_to(pair.target, options_.length - 1);
    if (source || target) ++cut_;
  }
}

SlotBatch PairBatches::slot(std::span<const Index> items, const std::optional<Epoch>&) const {
  std::vector<std::vector<Index>> sources;
  std::vector<std::vector<Index>> inputs;
  std::vector<std::vector<Index>> targets;
  for (const Index item : items) {
    const TokenPair& pair = pairs_[static_cast<std::size_t>(item)];
    sources.push_back(pair.source);
    inputs.push_back(pair.target);
    inputs.back().insert(inputs.back().begin(), options_.start);
    targets.push_back(pair.target);
    targets.back().push_back(options_.end);
  }
  SlotBatch slot;
  slot.source = padded_rows(sources);
  slot.input = padded_rows(inputs);
  slot.targets = row_targets(targets, slot.input);
  return slot;
}

}  // namespace attn::train
