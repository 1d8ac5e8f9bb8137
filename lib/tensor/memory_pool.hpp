#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace attn {

/// Keeps memory when the buffers in it are destroyed, so that a repeated computation reuses its
/// pages. The system clears pages that are returned to it, and each must be faulted in again: for
/// problems of a few MB this costs more than the arithmetic.
///
/// While a `Use` exists in a thread, every Buffer, LargeMemory, PooledVector and FromPool that the
/// thread makes lies in the pool; parallel_for passes the pool to its workers. A buffer may
/// be destroyed in any thread, but before the pool. Thread-safe. First fit by address: if one
/// thread repeats a sequence of requests, it gets the same addresses.
class MemoryPool {
 public:
  /// The bytes of a pool's bookkeeping for each block.
  static constexpr std::int64_t block_margin = 64;

  MemoryPool();
  ~MemoryPool();
  MemoryPool(MemoryPool&&) noexcept;
  MemoryPool& operator=(MemoryPool&&) noexcept;

  /// Makes the pool hold at least `bytes`. Untouched pages take no physical memory. Throws
  /// std::bad_alloc.
  void reserve(std::int64_t bytes);

  /// Returns a block of `bytes`, aligned for any vector unit, with unspecified values. The pool
  /// grows if it has no gap for the block; else nothing is allocated. Throws std::bad_alloc.
  std::byte* take(std::size_t bytes);
  void give_back(std::byte* block) noexcept;

  /// Bytes that the pool holds, in use or not.
  std::int64_t bytes() const;

  /// Bytes in use, margins included, and the most that have been so far.
  std::int64_t bytes_in_use() const;
  std::int64_t most_bytes_in_use() const;

  /// How often pools of this process have requested memory from the system, and the bytes that they
  /// hold; for tests.
  static std::int64_t growths() noexcept;
  static std::int64_t all_bytes() noexcept;

  /// The pool from which this thread allocates; null: none, memory comes from operator new.
  static MemoryPool* current() noexcept;

  /// Makes this thread allocate from `pool` until the end of the scope; null: from none.
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

/// The deleter of a block from `pool`, or from new std::byte[] if `pool` is null.
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

/// Returns a block from the thread's pool, or from new if it has none. Throws std::bad_alloc.
inline MemoryBlock take_block(std::size_t bytes) {
  MemoryPool* const pool = MemoryPool::current();
  std::byte* const block = pool == nullptr ? new std::byte[bytes] : pool->take(bytes);
  return MemoryBlock(block, BlockReturn{pool});
}

}  // namespace attn
