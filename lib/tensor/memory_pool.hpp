#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace attn {

/// Memory that is kept when the buffers in it are destroyed, so that a computation that is run
/// again finds its pages in place: pages that go back to the system must be cleared by it and
/// faulted in anew, which for problems of some MB costs more than the arithmetic.
///
/// While a thread is inside of a `Use`, every Buffer and LargeMemory that it makes lies in the
/// pool; kernel::parallel_for hands the pool on to its workers. A buffer may be destroyed anywhere,
/// but before the pool. Thread-safe. First fit by address: a sequence of requests that one thread
/// makes again gets the same addresses again.
class MemoryPool {
 public:
  MemoryPool();
  ~MemoryPool();
  MemoryPool(MemoryPool&&) noexcept;
  MemoryPool& operator=(MemoryPool&&) noexcept;

  /// Makes the pool hold at least `bytes`. What is not touched takes no physical memory. Throws
  /// std::bad_alloc.
  void reserve(std::int64_t bytes);

  /// A block of `bytes`, aligned for any vector unit, values unspecified. The pool grows where the
  /// block fits nowhere. Throws std::bad_alloc.
  std::byte* take(std::size_t bytes);
  void give_back(std::byte* block) noexcept;

  /// Bytes that the pool holds, in use or not.
  std::int64_t bytes() const;

  /// Bytes in use, and the most that have been so far.
  std::int64_t bytes_in_use() const;
  std::int64_t most_bytes_in_use() const;

  /// How often pools of this process have asked the system for memory: what tests look at.
  static std::int64_t growths() noexcept;

  /// The pool that this thread draws from; null: none, memory comes from operator new.
  static MemoryPool* current() noexcept;

  /// Makes this thread draw from `pool` until the end of the scope; null: from none.
  class Use {
   public:
    explicit Use(MemoryPool* pool) noexcept;
    ~Use();
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

   private:
    MemoryPool* before_;
  };

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// The deleter of a block from `pool`, or from new std::byte[] where that is null.
struct BlockReturn {
  MemoryPool* pool = nullptr;
  void operator()(std::byte* block) const noexcept {
    if (pool == nullptr) {
      delete[] block;
    } else {
      pool->give_back(block);
    }
  }
};

using MemoryBlock = std::unique_ptr<std::byte[], BlockReturn>;

/// A block from the thread's pool, else from new. Throws std::bad_alloc.
inline MemoryBlock take_block(std::size_t bytes) {
  MemoryPool* const pool = MemoryPool::current();
  std::byte* const block = pool == nullptr ? new std::byte[bytes] : pool->take(bytes);
  return MemoryBlock(block, BlockReturn{pool});
}

}  // namespace attn
