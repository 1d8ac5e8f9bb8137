// Replaces operator new by one that counts; not under a sanitizer, which has its own.

#include "allocation_count.hpp"

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace {

std::atomic<std::int64_t> count{0};

#ifndef ATTN_SANITIZED
void* allocate(std::size_t bytes, std::size_t alignment) {
  ++count;
  const std::size_t whole = (bytes + alignment - 1) / alignment * alignment;
  void* const found = alignment <= alignof(std::max_align_t)
                          ? std::malloc(bytes > 0 ? bytes : 1)
                          : std::aligned_alloc(alignment, whole > 0 ? whole : alignment);
  if (found == nullptr) throw std::bad_alloc();
  return found;
}

#endif

}  // namespace

#ifndef ATTN_SANITIZED
void* operator new(std::size_t bytes) { return allocate(bytes, 1); }
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return allocate(bytes, static_cast<std::size_t>(alignment));
}
void operator delete(void* block) noexcept { std::free(block); }
void operator delete(void* block, std::size_t) noexcept { std::free(block); }
void operator delete(void* block, std::align_val_t) noexcept { std::free(block); }
void operator delete(void* block, std::size_t, std::align_val_t) noexcept { std::free(block); }
#endif

std::int64_t attn::testing::allocations() { return count.load(); }
