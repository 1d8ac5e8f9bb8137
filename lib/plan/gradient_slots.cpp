#include "plan/gradient_slots.hpp"

#include <algorithm>
#include <utility>

#include "head/number_check.hpp"

namespace attn {
namespace {

// Throws Error(usage) for an operand of the energy that bears another operand's name.
template <class T, class Take>
void for_each_gradient(const AttentionGradients<T>& gradients, const Take& take) {
  const std::pair<const char*, const TensorView<T>&> all[] = {{"q", gradients.q},
                                                              {"k", gradients.k},
                                                              {"v", gradients.v},
                                                              {"x", gradients.x},
                                                              {"y", gradients.y},
                                                              {"wq", gradients.wq},
                                                              {"wk", gradients.wk},
                                                              {"wv", gradients.wv},
                                                              {"bq", gradients.bq},
                                                              {"bk", gradients.bk},
                                                              {"bv", gradients.bv},
                                                              {"bias", gradients.bias},
                                                              {"preference", gradients.preference},
                                                              {"cost", gradients.cost},
                                                              {"rel_bias", gradients.rel_bias},
                                                              {"hybrid", gradients.hybrid},
                                                              {"sink", gradients.sink},
                                                              {"gate", gradients.gate}};
  for (const auto& [name, view] : all) take(name, view);
  for (const auto& operand : gradients.energy) {
    const std::string& name = operand.first;
    const bool taken = std::any_of(std::begin(all), std::end(all),
                                   [&](const auto& other) { return name == other.first; });
    if (taken) throw Error(Failure::usage, name + " is not an operand of the energy");
    take(name, operand.second);
  }
}

}  // namespace

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
  require_places("the gradient of " + name, view.shape, view.strides);
  found->view = view;
  if (is_dense(view.shape, view.strides)) found->view.strides = {};
}

template <class T>
void GradientSlots<T>::start(const AttentionGradients<T>& wanted) {
  finish();
  for_each_gradient(wanted,
                    [&](const std::string& name, const TensorView<T>& view) { want(name, view); });
  for (Slot& slot : slots_) {
    if (slot.wanted() && (slot.sums.any_shared() || !slot.view.strides.empty())) {
      slot.parts = Buffer<T>(wave_ * slot.size());
    }
    if (slot.wanted() && slot.block_of.empty()) slot.clear_all();
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
MatrixView<T> GradientSlots<T>::Slot::block(Index number) const {
  if (!of.operand) return {view.data, rows, cols};
  return block_at(*of.operand, view.data, view.strides, number);
}

template <class T>
void GradientSlots<T>::Slot::clear_all() const {
  const Index blocks = of.operand ? element_count(of.operand->leading) : 1;
  for (Index n = 0; n < blocks; ++n) set_to_zero(block(n));
}

template <class T>
T* GradientSlots<T>::Slot::part(Index problem, Index at) const {
  return in_place(problem) ? block_of_problem(problem).data : parts.data() + at * size();
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
    if (slot.wanted() && !all_finite(slot.part(problem, at), slot.size())) refuse(slot);
  }
}

template <class T>
void GradientSlots<T>::refuse(const Slot& slot) {
  throw_beyond_range<T>("the gradient of " + slot.of.name + " is beyond the range of");
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
    if (!slot.wanted() || slot.in_place(problem)) continue;
    std::span<const T> whole = {slot.part(problem, at), static_cast<std::size_t>(slot.size())};
    if (!slot.sums.is_alone(problem)) whole = slot.sums.add(problem, whole);
    if (whole.empty()) continue;
    if (!all_finite(whole.data(), slot.size())) refuse(slot);
    const MatrixView<T> to = slot.block_of_problem(problem);
    for (Index i = 0; i < to.rows; ++i) std::copy_n(&whole[i * to.cols], to.cols, to.row(i));
  }
}

template <class T>
std::int64_t GradientSlots<T>::bytes(const AttentionGradients<T>& with_strides) const {
  const auto has_strides = [&](const std::string& name) {
    bool has = false;
    for_each_gradient(with_strides, [&](const std::string& other, const TensorView<T>& view) {
      has = has || (other == name && !is_dense(view.shape, view.strides));
    });
    return has;
  };
  std::int64_t bytes = 0;
  for (const Slot& slot : slots_) {
    const bool shared = slot.sums.any_shared();
    if (!shared && !has_strides(slot.of.name)) continue;
    const Index sums = shared ? slot.sums.most_open() : 0;
    bytes += slot.size() * ((wave_ + 1) * static_cast<Index>(sizeof(T)) +
                            sums * static_cast<Index>(sizeof(double)));
    bytes += (sums + 2) * buffer_margin;
  }
  return bytes;
}

template class GradientSlots<float>;
template class GradientSlots<double>;

}  // namespace attn
