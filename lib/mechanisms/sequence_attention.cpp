#include "mechanisms/sequence_attention.hpp"

#include <algorithm>
#include <utility>

#include "mechanisms/batch.hpp"
#include "tensor/memory_pool.hpp"

namespace attn::mechanisms {

template <class T>
SequenceAttention<T>::Lent::Lent(const SequenceAttention& from, std::size_t which,
                                 const AttentionInputs<T>& inputs, int threads)
    : from_(from), which_(which) {
  const std::array<Shape, 3> shapes = {inputs.q.shape, inputs.k.shape, inputs.v.shape};
  {
    const std::lock_guard lock(from.mutex_);
    auto& idle = from.idle_[which];
    idle.reserve(most_parts);  // to give a plan back allocates nothing
    const auto found = std::find_if(idle.begin(), idle.end(), [&](const auto& kept) {
      return kept->shapes == shapes && kept->threads == threads;
    });
    if (found != idle.end()) kept_ = std::move(*found);
    // Another plan takes the place of the oldest, so that there are never more plans than calls at
    // a time.
    if (!idle.empty()) idle.erase(found != idle.end() ? found : idle.begin());
  }
  if (kept_) return;
  // The caller's pool may end before the plan does.
  const MemoryPool::Use own(nullptr);
  kept_ = std::make_unique<Kept>(
      Kept{shapes, threads, AttentionPlan<T>(shapes_of(inputs), from.options_, threads)});
}

template <class T>
SequenceAttention<T>::Lent::~Lent() {
  const std::lock_guard lock(from_.mutex_);
  auto& idle = from_.idle_[which_];
  if (std::ssize(idle) < most_parts) idle.push_back(std::move(kept_));
}

template <class T>
std::int64_t SequenceAttention<T>::bytes(const AttentionShapes& shapes, bool gradients) const {
  for (const Shape& shape : {*shapes.q, *shapes.k, *shapes.v}) {
    if (element_count(shape) == 0) return 0;
  }
  const AttentionPlan<T> plan(shapes, options_, 1);
  const std::int64_t results = plan.workspace_bytes();
  return gradients ? std::max(results, plan.gradient_workspace_bytes()) : results;
}

template class SequenceAttention<float>;
template class SequenceAttention<double>;

}  // namespace attn::mechanisms
