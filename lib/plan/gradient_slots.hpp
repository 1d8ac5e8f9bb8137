#pragma once

#include <functional>
#include <string>
#include <vector>

#include "gradient/shared_sums.hpp"
#include "plan/attention_layout.hpp"

namespace attn {

/// The gradients of all operands of a plan, each of its operand's shape: the parts of a head go
/// straight to where they belong, or are added up over the heads that share a block.
template <class T>
class GradientSlots {
 public:
  /// `layout` must outlive it. Heads come in waves of at most `wave`.
  GradientSlots(const AttentionLayout& layout, Index wave);

  /// Before the first wave of a run: takes the gradients that are wanted. Throws Error(usage) for
  /// the gradient of an operand that the plan has not, Error(input) for one of another shape. Takes
  /// buffers from the thread's pool, until `finish`.
  void start(const AttentionGradients<T>& wanted);

  /// Where the parts of head number `at` of a wave go. Thread-safe.
  HeadGradientTargets<T> targets(Index problem, Index at) const;

  /// Throws Error(numerical) naming a gradient of the head that is not finite. Thread-safe.
  void require_finite(Index problem, Index at) const;

  /// Sets the head's parts to 0. Thread-safe.
  void clear(Index problem, Index at) const;

  /// Adds up the parts of a head: all heads in order.
  void collect(Index problem, Index at);

  /// After the last wave, or an error: gives the buffers back.
  void finish();

  /// Bytes that `start` and `collect` take if everything is wanted.
  std::int64_t bytes() const;

 private:
  struct Slot {
    std::string name;
    PlannedOperand operand;
    std::function<void(HeadGradientTargets<T>&, MatrixView<T>)> place;
    SharedSums<T> sums;
    TensorView<T> view = {};
    Buffer<T> parts = {};  // of a wave

    bool wanted() const { return view.data != nullptr; }
    T* part(Index problem, Index at) const;
  };

  void add(const std::optional<PlannedOperand>& operand,
           std::function<void(HeadGradientTargets<T>&, MatrixView<T>)> place);
  void add_vectors();
  void add_projections();
  void want(const std::string& name, const TensorView<T>& view);

  Index wave_;
  std::size_t energy_operands_;
  const AttentionLayout& layout_;
  std::vector<Slot> slots_;
};

}  // namespace attn
