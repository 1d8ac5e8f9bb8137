#pragma once

#include <string>
#include <vector>

#include "gradient/shared_sums.hpp"
#include "head/gradient_operands.hpp"
#include "plan/attention_layout.hpp"

namespace attn {

/// The gradients of all operands of a plan, each of its operand's shape. A head's gradient is
/// written straight to its block. If the block has strides or several heads share it, the gradient
/// is written to a buffer, and then copied or added to their sum.
template <class T>
class GradientSlots {
 public:
  /// Heads come in waves of at most `wave`.
  GradientSlots(const AttentionLayout& layout, Index wave);

  /// Call before the first wave of a run, with the requested gradients. Takes buffers from the
  /// thread's pool, until `finish`. Throws Error(usage) for the gradient of an operand that the
  /// plan lacks, Error(input) for a gradient whose shape is not the operand's, or whose strides put
  /// two elements in one place.
  void start(const AttentionGradients<T>& wanted);

  /// Where the gradients of head number `at` of a wave go, cut to its own queries and keys along
  /// axes of an operand that have them. The rest must have been cleared. Thread-safe.
  HeadGradientTargets<T> targets(Index problem, Index at, const TileRange& own) const;

  /// Throws Error(numerical) that names a gradient of the head if it is not finite. Thread-safe.
  void require_finite(Index problem, Index at) const;

  /// Sets the head's gradients to 0. Thread-safe.
  void clear(Index problem, Index at) const;

  /// Completes the head's gradients that lie in buffers. Call for all heads in order. Throws
  /// Error(numerical) that names a gradient whose sum over heads is not finite.
  void collect(Index problem, Index at);

  /// Returns the buffers to the pool. Call after the last wave or an error.
  void finish();

  /// Bytes that `start` and `collect` take if all gradients are requested, and these have strides.
  std::int64_t bytes(const AttentionGradients<T>& with_strides = {}) const;

 private:
  struct Slot {
    GradientOperand<T> of;
    Shape shape;
    Index rows, cols;
    PooledVector<Index> block_of;
    SharedSums<T> sums;
    TensorView<T> view = {};  // without strides if they are dense
    Buffer<T> parts = {};     // gradients of the heads of a wave that are not written in place

    bool wanted() const { return view.data != nullptr; }
    Index size() const { return rows * cols; }
    bool in_place(Index problem) const { return view.strides.empty() && sums.is_alone(problem); }
    MatrixView<T> block(Index number) const;
    MatrixView<T> block_of_problem(Index problem) const {
      return block(block_of[static_cast<std::size_t>(problem)]);
    }
    void clear_all() const;  // no problem: a sum over none
    T* part(Index problem, Index at) const;
  };

  [[noreturn]] static void refuse(const Slot& slot);
  void want(const std::string& name, const TensorView<T>& view);

  Index wave_;
  std::vector<Slot> slots_;
};

}  // namespace attn
