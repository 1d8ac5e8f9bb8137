#pragma once

#include <string>

#include "tensor/array_source.hpp"

namespace attn {

/// An array in the caller's memory, as a source. A plan makes it from a shape, and binds it to
/// other memory in every run.
class MemoryArray final : public ArraySource::Impl {
 public:
  /// `operand` is its name in messages.
  MemoryArray(const std::string& operand, const Shape& lengths, DType type);

  /// The numbers must outlive all reading, and so must the strides, as in TensorView. Throws the
  /// errors of require_strides.
  void bind(const void* numbers, const Shape& strides);

  const void* in_memory() const override { return numbers_; }
  const Shape* strides() const override { return strides_; }

  /// Throws std::logic_error for an array that is not bound.
  void read_stored(const Shape& start, const Shape& count, void* out) const override;

 private:
  const void* numbers_ = nullptr;
  const Shape* strides_ = nullptr;  // null: dense
};

}  // namespace attn
