#include "train/attention_plans.hpp"

#include <algorithm>
#include <cmath>

#include "tensor/memory_pool.hpp"

namespace attn::train {
namespace {

AttentionShapes shapes_of_extents(const AttentionExtents& extents) {
  AttentionShapes shapes;
  shapes.q = Shape{extents.sequences, extents.heads, extents.queries, extents.depth};
  shapes.k = Shape{extents.sequences, extents.heads, extents.keys, extents.depth};
  shapes.v = shapes.k;
  if (extents.padded_queries) shapes.query_length = Shape{extents.sequences};
  if (extents.padded_keys) shapes.key_length = Shape{extents.sequences};
  if (extents.scheme.scheme == Scheme::hnas && !extents.scheme.em) {
    shapes.hybrid = extents.scheme.share_by_head ? Shape{extents.heads} : Shape{};
  }
  if (extents.scheme.has_preference()) shapes.preference = Shape{1, extents.keys};
  if (extents.scheme.is_transport()) shapes.cost = Shape{extents.keys, extents.keys};
  return shapes;
}

AttentionOptions options_of(const AttentionExtents& extents) {
  AttentionOptions options;
  options.causal = extents.causal ? Causal::top_left : Causal::none;
  if (extents.scheme.em) {
    options.scheme = Scheme::dnas;
    Repetition& repetition = options.repetition.emplace();
    repetition.iterations = extents.scheme.em->iterations;
    repetition.estimates_priors = true;
    if (extents.scheme.em->estimates_variance) {
      repetition.estimates_variance = true;
      repetition.min_variance = least_variance * std::sqrt(static_cast<double>(extents.depth));
    }
    return options;
  }
  options.scheme = extents.scheme.scheme;
  options.energy = "scaled-dot";
  if (extents.scheme.is_transport()) options.gamma = extents.scheme.gamma;
  options.tuning.same_if_rescaled = extents.in_paths;
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
  if (std::ssize(plans_) == most_plans) plans_.clear();
  // Not from the pool of a step, which takes all memory back at the end of the step.
  const MemoryPool::Use own(nullptr);
  return plans_
      .emplace(extents, AttentionPlan<T>(shapes_of_extents(extents), options_of(extents), 1))
      .first->second;
}

template <class T>
PlanBytes AttentionPlans<T>::bytes(const AttentionExtents& extents) {
  const AttentionPlan<T> plan(shapes_of_extents(extents), options_of(extents), 1);
  const std::int64_t results = plan.workspace_bytes();
  return {results, std::max(results, plan.gradient_workspace_bytes())};
}

template class AttentionPlans<float>;
template class AttentionPlans<double>;

}  // namespace attn::train
