#include "train/attention_plans.hpp"

#include "tensor/memory_pool.hpp"

namespace attn::train {
namespace {

constexpr std::size_t most_plans = 16;

AttentionShapes shapes_of_extents(const AttentionExtents& extents) {
  AttentionShapes shapes;
  shapes.q = Shape{extents.sequences, extents.heads, extents.queries, extents.depth};
  shapes.k = Shape{extents.sequences, extents.heads, extents.keys, extents.depth};
  shapes.v = shapes.k;
  if (extents.padded_queries) shapes.query_length = Shape{extents.sequences};
  if (extents.padded_keys) shapes.key_length = Shape{extents.sequences};
  if (extents.scheme.scheme == Scheme::hnas) {
    shapes.hybrid = extents.scheme.share_by_head ? Shape{extents.heads} : Shape{};
  }
  return shapes;
}

AttentionOptions options_of(const AttentionExtents& extents) {
  AttentionOptions options;
  options.scheme = extents.scheme.scheme;
  options.same_if_rescaled = extents.in_paths;
  options.causal = extents.causal ? Causal::top_left : Causal::none;
  if (extents.scheme.scheme == Scheme::sinkhorn) {
    options.stopping.iterations = extents.scheme.iterations;
  }
  return options;
}

}  // namespace

template <class T>
AttentionPlan<T>& AttentionPlans<T>::plan(const AttentionExtents& extents) {
  const auto found = plans_.find(extents);
  if (found != plans_.end()) return found->second;
  if (plans_.size() == most_plans) plans_.clear();
  // Not from the pool of a step, in which all memory returns at its end.
  const MemoryPool::Use own(nullptr);
  return plans_
      .emplace(extents, AttentionPlan<T>(shapes_of_extents(extents), options_of(extents), 1))
      .first->second;
}

template class AttentionPlans<float>;
template class AttentionPlans<double>;

}  // namespace attn::train
