#pragma once

#include "tensor/mapped_memory.hpp"
#include "tensor/memory_pool.hpp"

namespace attn {

/// Memory for one large object, with unspecified values: from the thread's MemoryPool if it has
/// one, else pages of its own (MappedMemory).
class LargeMemory {
 public:
  LargeMemory() = default;

  /// Throws std::bad_alloc.
  explicit LargeMemory(std::size_t bytes) {
    if (MemoryPool::current() == nullptr) {
      own_ = MappedMemory(bytes);
    } else {
      pooled_ = take_block(bytes);
    }
  }

  void* data() const { return pooled_ ? pooled_.get() : own_.data(); }

 private:
  MappedMemory own_;
  MemoryBlock pooled_;
};

}  // namespace attn
