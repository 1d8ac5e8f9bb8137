#pragma once

#include <algorithm>
#include <array>
#include <memory>
#include <set>

#include "attn_train/run_data.hpp"
#include "train/batches.hpp"
#include "train/pass_bytes.hpp"

namespace attn::tools {

/// The sizes of the batches of all splits.
struct BatchSizes {
  Index most = 0;             ///< items of a batch
  std::set<Index> trained;    ///< the sizes of slots, in items, in training
  std::set<Index> evaluated;  ///< the sizes of slots in evaluation

  Index largest_slot() const {
    return std::max(trained.empty() ? 0 : *trained.rbegin(),
                    evaluated.empty() ? 0 : *evaluated.rbegin());
  }

  /// The shapes of slots if all items have one length.
  train::SlotShapes shapes() const {
    const auto is_new = [&](Index size) { return trained.count(size) == 0; };
    return {std::ssize(trained), std::count_if(evaluated.begin(), evaluated.end(), is_new)};
  }
};

/// `batches` by split; null for an empty split.
template <class Batches>
BatchSizes batch_sizes(const std::array<std::unique_ptr<Batches>, 3>& batches) {
  BatchSizes sizes;
  for (const Split split : all_splits) {
    const Batches* const of_split = batches[static_cast<std::size_t>(split)].get();
    if (of_split == nullptr) continue;
    sizes.most = std::max(sizes.most, of_split->largest());
    (split == Split::train ? sizes.trained : sizes.evaluated).merge(of_split->slot_sizes());
  }
  return sizes;
}

}  // namespace attn::tools
