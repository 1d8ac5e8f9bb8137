#include "train/layer_column_sums.hpp"

#include <algorithm>

#include "parallel/parallel_for.hpp"

namespace attn::train {
namespace {

// The keys of a sequence that some query may attend to: the first ones.
Index attended_keys(const Sequences& queries, const Sequences& keys, Index n, bool causal) {
  const Index own_queries = queries.own_length(n);
  const Index own_keys = keys.own_length(n);
  if (causal) return std::min(own_queries, own_keys);
  return own_queries == 0 ? 0 : own_keys;
}

}  // namespace

void LayerColumnSums::add(const LayerColumnSums& more) {
  least = std::min(least, more.least);
  keys += more.keys;
  explained_away += more.explained_away;
}

template <class T>
LayerColumnSums layer_column_sums(const Slot<T>& slot, const AttentionSite<T>& site) {
  const AttentionLayerOptions& options = site.layer->options();
  const OwnedMatrix<double> sums =
      site.layer->column_sums(slot, site.queries, site.keys, *site.kept);
  LayerColumnSums found;
  found.group = site.layer->group();
  for (Index n = 0; n < site.keys.count; ++n) {
    const Index attended = attended_keys(site.queries, site.keys, n, options.causal);
    for (Index h = 0; h < options.heads; ++h) {
      const double* const c = sums.data() + (n * options.heads + h) * site.keys.length;
      for (Index j = 0; j < attended; ++j) {
        found.add({{}, c[j], 1, c[j] < explained_away_below ? 1 : 0});
      }
    }
  }
  return found;
}

template <class T>
std::vector<LayerColumnSums> layer_column_sums(const Transformer& model, const T* weights,
                                               const std::vector<SlotBatch>& slots, int threads) {
  MemoryPool pool;
  const MemoryPool::Use use(&pool);
  std::vector<AttentionPlans<T>> plans(static_cast<std::size_t>(threads));
  std::vector<std::vector<LayerColumnSums>> by_slot(slots.size());
  parallel_for(std::ssize(slots), threads, [&](Index n, int worker) {
    const auto at = static_cast<std::size_t>(n);
    Slot<T> slot;
    slot.weights = weights;
    slot.plans = &plans[static_cast<std::size_t>(worker)];
    Transformer::Passed<T> passed;
    model.forward(slot, slots[at], passed);
    for (const AttentionSite<T>& site : model.attention_sites(slots[at], passed)) {
      by_slot[at].push_back(layer_column_sums(slot, site));
    }
  });
  std::vector<LayerColumnSums> all;
  for (const std::vector<LayerColumnSums>& part : by_slot) {
    if (all.empty()) {
      all = part;
      continue;
    }
    for (std::size_t n = 0; n < all.size(); ++n) all[n].add(part[n]);
  }
  return all;
}

#define ATTN_LAYER_COLUMN_SUMS(T)                                                       \
  template LayerColumnSums layer_column_sums(const Slot<T>&, const AttentionSite<T>&);  \
  template std::vector<LayerColumnSums> layer_column_sums(const Transformer&, const T*, \
                                                          const std::vector<SlotBatch>&, int);
ATTN_LAYER_COLUMN_SUMS(float)
ATTN_LAYER_COLUMN_SUMS(double)
#undef ATTN_LAYER_COLUMN_SUMS

}  // namespace attn::train
