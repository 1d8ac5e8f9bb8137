#include "tensor/memory_pool.hpp"

#include <sanitizer/asan_interface.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <new>
#include <vector>

#include "tensor/mapped_memory.hpp"

namespace attn {
namespace {

constexpr std::size_t alignment = 64;

// Limits the number of steps of a pool that grows repeatedly.
constexpr std::size_t smallest_growth = std::size_t{1} << 20;

thread_local MemoryPool* drawn_from = nullptr;

std::atomic<std::int64_t> all_growths{0};

std::size_t rounded_up(std::size_t bytes) {
  const std::size_t rounded = (std::max<std::size_t>(bytes, 1) + alignment - 1) / alignment;
  if (rounded > std::size_t{1} << 56) throw std::bad_alloc();
  return rounded * alignment;
}

}  // namespace

struct MemoryPool::State {
  struct Region {
    MappedMemory memory;
    std::size_t bytes;
  };

  mutable std::mutex mutex;
  std::vector<Region> regions;
  std::map<std::byte*, std::size_t> free;  // by address; neighbours within a region are merged
  std::map<std::byte*, std::size_t> used;
  std::size_t bytes = 0;
  std::size_t in_use = 0;
  std::size_t most_in_use = 0;

  ~State() { drop_regions(); }

  // Requires that nothing is in use.
  void drop_regions() {
    // Another allocation may be mapped at these addresses later.
    for (const Region& region : regions) {
      ASAN_UNPOISON_MEMORY_REGION(region.memory.data(), region.bytes);
    }
    regions.clear();
    free.clear();
    bytes = 0;
  }

  void grow(std::size_t more) {
    regions.push_back({MappedMemory(more), more});
    auto* const first = static_cast<std::byte*>(regions.back().memory.data());
    ASAN_POISON_MEMORY_REGION(first, more);
    free.emplace(first, more);
    bytes += more;
    ++all_growths;
  }

  bool begins_region(const std::byte* block) const {
    return std::any_of(regions.begin(), regions.end(),
                       [&](const Region& region) { return region.memory.data() == block; });
  }
};

MemoryPool::MemoryPool() : state_(std::make_unique<State>()) {}
MemoryPool::~MemoryPool() = default;
MemoryPool::MemoryPool(MemoryPool&&) noexcept = default;
MemoryPool& MemoryPool::operator=(MemoryPool&&) noexcept = default;

void MemoryPool::reserve(std::int64_t bytes) {
  const std::lock_guard lock(state_->mutex);
  const auto wanted = rounded_up(static_cast<std::size_t>(std::max<std::int64_t>(bytes, 0)));
  if (wanted <= state_->bytes) return;
  // One large region has room for larger blocks than two regions.
  if (state_->in_use == 0) state_->drop_regions();
  state_->grow(wanted - state_->bytes);
}

std::byte* MemoryPool::take(std::size_t bytes) {
  const std::size_t size = rounded_up(bytes);
  const std::lock_guard lock(state_->mutex);
  auto& free = state_->free;
  const auto fits = [&](const auto& gap) { return gap.second >= size; };
  auto gap = std::find_if(free.begin(), free.end(), fits);
  if (gap == free.end()) {
    state_->grow(std::max(size, smallest_growth));
    gap = std::find_if(free.begin(), free.end(), fits);
  }
  std::byte* const block = gap->first;
  const std::size_t left = gap->second - size;
  state_->used.emplace(block, size);
  if (left > 0) free.emplace(block + size, left);
  free.erase(block);
  state_->in_use += size;
  state_->most_in_use = std::max(state_->most_in_use, state_->in_use);
  ASAN_UNPOISON_MEMORY_REGION(block, size);
  return block;
}

void MemoryPool::give_back(std::byte* block) noexcept {
  const std::lock_guard lock(state_->mutex);
  const auto used = state_->used.find(block);
  std::size_t size = used->second;
  ASAN_POISON_MEMORY_REGION(block, size);
  state_->in_use -= size;
  auto& free = state_->free;
  auto next = free.lower_bound(block);
  // Regions may be adjacent, but a block across two of them could not be returned to the system.
  if (next != free.end() && next->first == block + size && !state_->begins_region(next->first)) {
    size += next->second;
    next = free.erase(next);
  }
  if (next != free.begin() && !state_->begins_region(block)) {
    const auto before = std::prev(next);
    if (before->first + before->second == block) {
      before->second += size;
      state_->used.erase(used);
      return;
    }
  }
  // The map node of the block in use becomes that of the gap: without an allocation, nothing fails.
  auto node = state_->used.extract(used);
  node.mapped() = size;
  free.insert(std::move(node));
}

std::int64_t MemoryPool::bytes() const {
  const std::lock_guard lock(state_->mutex);
  return static_cast<std::int64_t>(state_->bytes);
}

std::int64_t MemoryPool::bytes_in_use() const {
  const std::lock_guard lock(state_->mutex);
  return static_cast<std::int64_t>(state_->in_use);
}

std::int64_t MemoryPool::most_bytes_in_use() const {
  const std::lock_guard lock(state_->mutex);
  return static_cast<std::int64_t>(state_->most_in_use);
}

std::int64_t MemoryPool::growths() noexcept { return all_growths.load(); }

MemoryPool* MemoryPool::current() noexcept { return drawn_from; }

MemoryPool::Use::Use(MemoryPool* pool) noexcept : before_(drawn_from) { drawn_from = pool; }
MemoryPool::Use::~Use() { drawn_from = before_; }

}  // namespace attn
