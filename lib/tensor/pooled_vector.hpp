#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <new>
#include <type_traits>
#include <vector>

#include "tensor/memory_pool.hpp"

namespace attn {

/// Allocates from the pool that the thread had when the allocator was made, or from operator new if
/// it had none.
template <class T>
class PoolAllocator {
 public:
  using value_type = T;
  using propagate_on_container_move_assignment = std::true_type;
  using propagate_on_container_swap = std::true_type;

  PoolAllocator() noexcept : pool_(MemoryPool::current()) {}
  template <class U>
  PoolAllocator(const PoolAllocator<U>& other) noexcept : pool_(other.pool()) {}

  MemoryPool* pool() const noexcept { return pool_; }

  /// Throws std::bad_alloc.
  T* allocate(std::size_t count) {
    if (count > std::numeric_limits<std::size_t>::max() / sizeof(T)) throw std::bad_alloc();
    const std::size_t bytes = count * sizeof(T);
    if (pool_ != nullptr) return reinterpret_cast<T*>(pool_->take(bytes));
    if constexpr (alignof(T) > __STDCPP_DEFAULT_NEW_ALIGNMENT__) {
      return static_cast<T*>(::operator new (bytes, std::align_val_t{alignof(T)}));
    } else {
      return static_cast<T*>(::operator new(bytes));
    }
  }

  void deallocate(T* first, std::size_t) noexcept {
    if (pool_ != nullptr) {
      pool_->give_back(reinterpret_cast<std::byte*>(first));
    } else if constexpr (alignof(T) > __STDCPP_DEFAULT_NEW_ALIGNMENT__) {
      ::operator delete (first, std::align_val_t{alignof(T)});
    } else {
      ::operator delete(first);
    }
  }

  /// A copy of a container belongs to the pool of the thread that copies.
  PoolAllocator select_on_container_copy_construction() const { return {}; }

  template <class U>
  bool operator==(const PoolAllocator<U>& other) const noexcept {
    return pool_ == other.pool();
  }

 private:
  MemoryPool* pool_;
};

/// A std::vector whose memory comes from the thread's MemoryPool if it has one. The vector must be
/// destroyed before the pool. Converts from and to std::vector<T> by copying.
template <class T>
class PooledVector : public std::vector<T, PoolAllocator<T>> {
  using Base = std::vector<T, PoolAllocator<T>>;

 public:
  using Base::Base;
  PooledVector() = default;
  PooledVector(const std::vector<T>& values) : Base(values.begin(), values.end()) {}

  operator std::vector<T>() const { return std::vector<T>(this->begin(), this->end()); }

  friend bool operator==(const PooledVector& a, const PooledVector& b) {
    return static_cast<const Base&>(a) == static_cast<const Base&>(b);
  }
  friend bool operator==(const PooledVector& a, const std::vector<T>& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end());
  }
};

/// A base of classes whose objects come from the thread's MemoryPool when they are made by new.
class FromPool {
 public:
  static void* operator new(std::size_t bytes) {
    MemoryBlock block = take_block(sizeof(Origin) + bytes);
    auto* const origin = new (block.get()) Origin{block.get_deleter()};
    block.release();
    return origin + 1;
  }
  static void operator delete(void* object) noexcept {
    auto* const origin = static_cast<Origin*>(object) - 1;
    const BlockReturn give_back = origin->give_back;
    give_back(reinterpret_cast<std::byte*>(origin));
  }

 protected:
  ~FromPool() = default;

 private:
  struct alignas(std::max_align_t) Origin {
    BlockReturn give_back;
  };
};

}  // namespace attn
