#include "plan/gradient_slots.hpp"

#include <algorithm>
#include <utility>

#include "plan/number_check.hpp"
#include "scheme/scheme_description.hpp"

namespace attn {
namespace {

// The hybrid that all problems share if the operand is absent.
PlannedOperand one_number(const char* name, Index problems) {
  PlannedOperand operand;
  operand.name = name;
  operand.block_of.assign(static_cast<std::size_t>(problems), 0);
  return operand;
}

}  // namespace

template <class T>
GradientSlots<T>::GradientSlots(const AttentionLayout& layout, Index wave)
    : wave_(wave), energy_operands_(layout.energy.size()), layout_(layout) {
  using Targets = HeadGradientTargets<T>;
  using View = MatrixView<T>;
  using Own = TileRange;
  add_vectors();
  if (layout.projects()) add_projections();
  add(layout.bias, [](Targets& to, View view, const Own& own) { to.bias = by_pair(view, own); });
  add(layout.rel_bias, [](Targets& to, View view, const Own&) { to.relative_bias = view; });
  for (std::size_t n = 0; n < energy_operands_; ++n) {
    add(layout.energy[n], [n](Targets& to, View view, const Own&) { to.energy[n] = view; });
  }
  add(layout.sink, [](Targets& to, View view, const Own&) { to.sink = view.data; });
  add(layout.gate, [](Targets& to, View view, const Own& own) {
    to.gate = view.rows > 1 ? by_query(view, own) : view;
  });
  if (description_of(layout.scheme.scheme).is_mixture()) {
    const auto place = [](Targets& to, View view, const Own&) { to.hybrid = view.data; };
    add(layout.hybrid ? layout.hybrid : one_number("hybrid", layout.problems), place);
  }
}

template <class T>
void GradientSlots<T>::add_vectors() {
  using Targets = HeadGradientTargets<T>;
  using View = MatrixView<T>;
  using Own = TileRange;
  add(layout_.q.own, [](Targets& to, View view, const Own& own) { to.q = by_query(view, own); });
  add(layout_.k.own, [](Targets& to, View view, const Own& own) { to.k = by_key(view, own); });
  add(layout_.v.own, [](Targets& to, View view, const Own& own) { to.v = by_key(view, own); });
}

template <class T>
void GradientSlots<T>::add_projections() {
  using Targets = HeadGradientTargets<T>;
  using View = MatrixView<T>;
  using Own = TileRange;
  const PlannedProjection& q = *layout_.q.projected;
  const PlannedProjection& k = *layout_.k.projected;
  if (layout_.has_y) {
    add(q.input,
        [](Targets& to, View view, const Own& own) { to.projections.x = by_query(view, own); });
    add(k.input,
        [](Targets& to, View view, const Own& own) { to.projections.y = by_key(view, own); });
  } else {
    add(q.input, [](Targets& to, View view, const Own& own) {
      to.projections.x = by_query(view, own);
      to.projections.y = by_key(view, own);
    });
  }
  add(q.weights, [](Targets& to, View view, const Own&) { to.projections.wq = view; });
  add(k.weights, [](Targets& to, View view, const Own&) { to.projections.wk = view; });
  add(q.bias, [](Targets& to, View view, const Own&) { to.projections.bq = view; });
  add(k.bias, [](Targets& to, View view, const Own&) { to.projections.bk = view; });
  if (!layout_.v) return;
  add(layout_.v.projected->weights,
      [](Targets& to, View view, const Own&) { to.projections.wv = view; });
  add(layout_.v.projected->bias,
      [](Targets& to, View view, const Own&) { to.projections.bv = view; });
}

template <class T>
void GradientSlots<T>::add(const std::optional<PlannedOperand>& operand, Place place) {
  if (!operand) return;
  slots_.push_back({operand->name, *operand, std::move(place),
                    SharedSums<T>(operand->block_of, operand->blocks)});
}

template <class T>
void GradientSlots<T>::want(const std::string& name, const TensorView<T>& view) {
  if (!view) return;
  const auto found = std::find_if(slots_.begin(), slots_.end(),
                                  [&](const Slot& slot) { return slot.name == name; });
  if (found == slots_.end()) {
    throw Error(Failure::usage, "the gradient of " + name + ": the plan was made without it");
  }
  if (view.shape != found->operand.shape) {
    throw Error(Failure::input, "the gradient of " + name + " has shape " + to_string(view.shape) +
                                    ", expected " + to_string(found->operand.shape));
  }
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
      slot.parts = Buffer<T>(wave_ * slot.operand.size());
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
  if (sums.is_alone(problem)) return view.data + operand.block(problem) * operand.size();
  return parts.data() + at * operand.size();
}

template <class T>
HeadGradientTargets<T> GradientSlots<T>::targets(Index problem, Index at,
                                                 const TileRange& own) const {
  HeadGradientTargets<T> targets;
  targets.energy.resize(energy_operands_);
  for (const Slot& slot : slots_) {
    if (!slot.wanted()) continue;
    slot.place(targets, {slot.part(problem, at), slot.operand.rows, slot.operand.cols}, own);
  }
  return targets;
}

template <class T>
void GradientSlots<T>::require_finite(Index problem, Index at) const {
  for (const Slot& slot : slots_) {
    if (!slot.wanted() || all_finite(slot.part(problem, at), slot.operand.size())) continue;
    throw_beyond_range<T>("the gradient of " + slot.name + " is beyond the range of");
  }
}

template <class T>
void GradientSlots<T>::clear(Index problem, Index at) const {
  for (const Slot& slot : slots_) {
    if (slot.wanted()) std::fill_n(slot.part(problem, at), slot.operand.size(), T{0});
  }
}

template <class T>
void GradientSlots<T>::collect(Index problem, Index at) {
  for (Slot& slot : slots_) {
    if (!slot.wanted() || slot.sums.is_alone(problem)) continue;
    const auto size = static_cast<std::size_t>(slot.operand.size());
    const auto sum = slot.sums.add(problem, {slot.part(problem, at), size});
    std::copy(sum.begin(), sum.end(),
              slot.view.data + slot.operand.block(problem) * slot.operand.size());
  }
}

template <class T>
std::int64_t GradientSlots<T>::bytes() const {
  std::int64_t bytes = 0;
  for (const Slot& slot : slots_) {
    if (!slot.sums.any_shared()) continue;
    const Index sums = slot.sums.most_open();
    bytes += slot.operand.size() * ((wave_ + 1) * static_cast<Index>(sizeof(T)) +
                                    sums * static_cast<Index>(sizeof(double)));
    bytes += (sums + 2) * buffer_margin;
  }
  return bytes;
}

template class GradientSlots<float>;
template class GradientSlots<double>;

}  // namespace attn
