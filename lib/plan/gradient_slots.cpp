#include "plan/gradient_slots.hpp"

#include <algorithm>
#include <utility>

#include "head/number_check.hpp"

namespace attn {

template <class T>
GradientSlots<T>::GradientSlots(const AttentionLayout& layout, Index wave) : wave_(wave) {
  for (GradientOperand<T>& of : gradient_operands<T>(layout, layout.scheme.scheme, layout.hybrid)) {
    PooledVector<Index> blocks(static_cast<std::size_t>(layout.problems), 0);
    Slot slot{std::move(of), {}, 1, 1, blocks, SharedSums<T>(blocks, 1)};
    if (slot.of.operand) {
      const Operand& operand = *slot.of.operand;
      for (std::size_t n = 0; n < blocks.size(); ++n)
        blocks[n] = operand.block(static_cast<Index>(n));
      slot.shape = operand.dataset.shape();
      slot.rows = operand.rows;
      slot.cols = operand.cols;
      slot.block_of = blocks;
      slot.sums = SharedSums<T>(blocks, element_count(operand.leading));
    }
    slots_.push_back(std::move(slot));
  }
}

template <class T>
void GradientSlots<T>::want(const std::string& name, const TensorView<T>& view) {
  if (!view) return;
  const auto found = std::find_if(slots_.begin(), slots_.end(),
                                  [&](const Slot& slot) { return slot.of.name == name; });
  if (found == slots_.end()) {
    throw Error(Failure::usage, "the gradient of " + name + ": the plan was made without it");
  }
  if (view.shape != found->shape) {
    throw Error(Failure::input, "the gradient of " + name + " has shape " + to_string(view.shape) +
                                    ", expected " + to_string(found->shape));
  }
  require_dense("the gradient of " + name, view.shape, view.strides);
  found->view = view;
}

template <class T>
void GradientSlots<T>::start(const AttentionGradients<T>& wanted) {
  finish();
  want("q", wanted.q);
  want("k", wanted.k);
  want("v", wanted.v);
  want("x", wanted.x);
  want("y", wanted.y);
  want("wq", wanted.wq);
  want("wk", wanted.wk);
  want("wv", wanted.wv);
  want("bq", wanted.bq);
  want("bk", wanted.bk);
  want("bv", wanted.bv);
  want("bias", wanted.bias);
  want("rel_bias", wanted.rel_bias);
  want("hybrid", wanted.hybrid);
  want("sink", wanted.sink);
  want("gate", wanted.gate);
  for (const auto& operand : wanted.energy) want(operand.first, operand.second);
  for (Slot& slot : slots_) {
    if (slot.wanted() && slot.sums.any_shared()) {
      slot.parts = Buffer<T>(wave_ * slot.size());
    }
  }
}

template <class T>
void GradientSlots<T>::finish() {
  for (Slot& slot : slots_) {
    slot.view = {};
    slot.parts = Buffer<T>();
    slot.sums.restart();
  }
}

template <class T>
T* GradientSlots<T>::Slot::part(Index problem, Index at) const {
  if (sums.is_alone(problem)) return block(problem);
  return parts.data() + at * size();
}

template <class T>
HeadGradientTargets<T> GradientSlots<T>::targets(Index problem, Index at,
                                                 const TileRange& own) const {
  HeadGradientTargets<T> targets;
  for (const Slot& slot : slots_) {
    if (!slot.wanted()) continue;
    slot.of.place(targets, {slot.part(problem, at), slot.rows, slot.cols}, own);
  }
  return targets;
}

template <class T>
void GradientSlots<T>::require_finite(Index problem, Index at) const {
  for (const Slot& slot : slots_) {
    if (!slot.wanted() || all_finite(slot.part(problem, at), slot.size())) continue;
    throw_beyond_range<T>("the gradient of " + slot.of.name + " is beyond the range of");
  }
}

template <class T>
void GradientSlots<T>::clear(Index problem, Index at) const {
  for (const Slot& slot : slots_) {
    if (slot.wanted()) std::fill_n(slot.part(problem, at), slot.size(), T{0});
  }
}

template <class T>
void GradientSlots<T>::collect(Index problem, Index at) {
  for (Slot& slot : slots_) {
    if (!slot.wanted() || slot.sums.is_alone(problem)) continue;
    const auto size = static_cast<std::size_t>(slot.size());
    const auto sum = slot.sums.add(problem, {slot.part(problem, at), size});
    std::copy(sum.begin(), sum.end(), slot.block(problem));
  }
}

template <class T>
std::int64_t GradientSlots<T>::bytes() const {
  std::int64_t bytes = 0;
  for (const Slot& slot : slots_) {
    if (!slot.sums.any_shared()) continue;
    const Index sums = slot.sums.most_open();
    bytes += slot.size() * ((wave_ + 1) * static_cast<Index>(sizeof(T)) +
                            sums * static_cast<Index>(sizeof(double)));
    bytes += (sums + 2) * buffer_margin;
  }
  return bytes;
}

template class GradientSlots<float>;
template class GradientSlots<double>;

}  // namespace attn
