#pragma once

#include <string>
#include <vector>

#include "gradient/shared_sums.hpp"
#include "head/gradient_operands.hpp"
#include "plan/attention_layout.hpp"

namespace attn {

/// The gradients of all operands of a plan, each of its operand's shape. A head's gradient is
/// written straight to its block. If several heads share the block, it is written to a buffer and
/// then added to their sum.
template <class T>
class GradientSlots {
 public:
  /// Heads come in waves of at most `wave`.
  GradientSlots(const AttentionLayout& layout, Index wave);

  /// Call before the first wave of a run, with the requested gradients. Takes buffers from the
  /// thread's pool, until `finish`. Throws Error(usage) for the gradient of an operand that the
  /// plan lacks, Error(input) for a gradient whose shape is not the operand's.
  void start(const AttentionGradients<T>& wanted);

  /// Where the gradients of head number `at` of a wave go, cut to its own queries and keys along
  /// axes of an operand that have them. The rest must have been cleared. Thread-safe.
  HeadGradientTargets<T> targets(Index problem, Index at, const TileRange& own) const;

  /// Throws Error(numerical) that names a gradient of the head if it is not finite. Thread-safe.
  void require_finite(Index problem, Index at) const;

  /// Sets the head's gradients to 0. Thread-safe.
  void clear(Index problem, Index at) const;

  /// Adds a head's gradients to the sums of shared blocks. Call for all heads in order.
  void collect(Index problem, Index at);

  /// Returns the buffers to the pool. Call after the last wave or an error.
  void finish();

  /// Bytes that `start` and `collect` take if all gradients are requested.
  std::int64_t bytes() const;

 private:
  struct Slot {
    GradientOperand<T> of;
    Shape shape;
    Index rows, cols;
    PooledVector<Index> block_of;
    SharedSums<T> sums;
    TensorView<T> view = {};
    Buffer<T> parts = {};  // gradients of the heads of a wave, for shared blocks

    bool wanted() const { return view.data != nullptr; }
    Index size() const { return rows * cols; }
    T* block(Index problem) const {
      return view.data + block_of[static_cast<std::size_t>(problem)] * size();
    }
    T* part(Index problem, Index at) const;
  };

  void want(const std::string& name, const TensorView<T>& view);

  Index wave_;
  std::vector<Slot> slots_;
};

}  // namespace attn
