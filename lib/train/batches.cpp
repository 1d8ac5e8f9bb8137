#include "train/batches.hpp"

#include <algorithm>
#include <numeric>

#include "tensor/random.hpp"
#include "train/batch_pass.hpp"
#include "train/transformer.hpp"
#include "train/view_batch.hpp"

namespace attn::train {

std::vector<Index> epoch_order(Index count, const Epoch& epoch) {
  std::vector<double> keys(static_cast<std::size_t>(count));
  RandomStream(epoch.seed, "order of an epoch").uniform(epoch.number * count, count, keys.data());
  std::vector<Index> order(keys.size());
  std::iota(order.begin(), order.end(), Index{0});
  const auto key = [&](Index k) { return keys[static_cast<std::size_t>(k)]; };
  std::stable_sort(order.begin(), order.end(), [&](Index a, Index b) { return key(a) < key(b); });
  return order;
}

template <class Batch>
std::set<Index> BatchesOf<Batch>::slot_sizes() const {
  std::set<Index> sizes;
  for (const Index items : {largest(), items_ % batch_}) {
    for (const SlotRange& range : slot_ranges(items)) sizes.insert(range.count);
  }
  return sizes;
}

template <class Batch>
std::vector<Batch> BatchesOf<Batch>::training(const Epoch& epoch, Index number) {
  if (ordered_ != epoch) {
    order_ = epoch_order(items_, epoch);
    ordered_ = epoch;
  }
  const Index first = number * batch_;
  const Index count = std::min(batch_, items_ - first);
  const std::span<const Index> order = order_;
  return slots(order.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(count)),
               epoch);
}

template <class Batch>
std::vector<Batch> BatchesOf<Batch>::evaluation(Index number) const {
  const Index first = number * batch_;
  std::vector<Index> items(static_cast<std::size_t>(std::min(batch_, items_ - first)));
  std::iota(items.begin(), items.end(), first);
  return slots(items, std::nullopt);
}

template <class Batch>
std::vector<Batch> BatchesOf<Batch>::slots(std::span<const Index> items,
                                           const std::optional<Epoch>& epoch) const {
  std::vector<Batch> found;
  for (const SlotRange& range : slot_ranges(std::ssize(items))) {
    found.push_back(slot(
        items.subspan(static_cast<std::size_t>(range.first), static_cast<std::size_t>(range.count)),
        epoch));
  }
  return found;
}

template class BatchesOf<SlotBatch>;
template class BatchesOf<ViewBatch>;

}  // namespace attn::train
