#include "tensor/memory_pool.hpp"

#include <sanitizer/asan_interface.h>

#include <algorithm>
#include <atomic>
#include <functional>
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
std::atomic<std::int64_t> bytes_of_all{0};

std::size_t rounded_up(std::size_t bytes) {
  if (bytes > std::size_t{1} << 56) throw std::bad_alloc();
  return (std::max<std::size_t>(bytes, 1) + alignment - 1) / alignment * alignment;
}

}  // namespace

struct MemoryPool::State {
  // Precedes the bytes of each block, so that the pool allocates nothing to keep account of its
  // blocks.
  struct alignas(alignment) Header {
    std::size_t bytes;   // header included
    std::size_t region;  // blocks of different regions are never joined, even if they are adjacent
    Header* next;        // of a gap: the next one, by address

    std::byte* end() { return reinterpret_cast<std::byte*>(this) + bytes; }
  };
  static_assert(sizeof(Header) == block_margin);

  static Header* gap_at(std::byte* first, std::size_t bytes, std::size_t region, Header* next) {
    ASAN_UNPOISON_MEMORY_REGION(first, sizeof(Header));
    return new (first) Header{bytes, region, next};
  }

  struct Region {
    MappedMemory memory;
    std::size_t bytes;
  };

  mutable std::mutex mutex;
  std::vector<Region> regions;
  Header* gaps = nullptr;  // by address; neighbours within a region are joined
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
    gaps = nullptr;
    bytes_of_all -= static_cast<std::int64_t>(bytes);
    bytes = 0;
  }

  void grow(std::size_t more) {
    regions.push_back({MappedMemory(more), more});
    auto* const first = static_cast<std::byte*>(regions.back().memory.data());
    ASAN_POISON_MEMORY_REGION(first, more);
    Header** const before = gap_after(first);
    *before = gap_at(first, more, regions.size() - 1, *before);
    bytes += more;
    bytes_of_all += static_cast<std::int64_t>(more);
    ++all_growths;
  }

  // The link to the first gap behind an address.
  Header** gap_after(const std::byte* address) {
    Header** link = &gaps;
    while (*link != nullptr && std::less<>()(reinterpret_cast<std::byte*>(*link), address)) {
      link = &(*link)->next;
    }
    return link;
  }

  // The link to the first gap of `size` bytes; null: there is none.
  Header** fitting_gap(std::size_t size) {
    for (Header** link = &gaps; *link != nullptr; link = &(*link)->next) {
      if ((*link)->bytes >= size) return link;
    }
    return nullptr;
  }

  static bool joins(Header* first, Header* second) {
    return first->end() == reinterpret_cast<std::byte*>(second) && first->region == second->region;
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
  const std::size_t size = rounded_up(bytes) + sizeof(State::Header);
  const std::lock_guard lock(state_->mutex);
  State::Header** link = state_->fitting_gap(size);
  if (link == nullptr) {
    state_->grow(std::max(size, smallest_growth));
    link = state_->fitting_gap(size);
  }
  State::Header* const block = *link;
  *link = block->next;
  if (block->bytes > size) {
    std::byte* const rest = reinterpret_cast<std::byte*>(block) + size;
    *link = State::gap_at(rest, block->bytes - size, block->region, block->next);
    block->bytes = size;
  }
  state_->in_use += size;
  state_->most_in_use = std::max(state_->most_in_use, state_->in_use);
  auto* const first = reinterpret_cast<std::byte*>(block + 1);
  ASAN_UNPOISON_MEMORY_REGION(first, size - sizeof(State::Header));
  return first;
}

void MemoryPool::give_back(std::byte* taken) noexcept {
  const std::lock_guard lock(state_->mutex);
  auto* const block = reinterpret_cast<State::Header*>(taken) - 1;
  state_->in_use -= block->bytes;
  ASAN_POISON_MEMORY_REGION(taken, block->bytes - sizeof(State::Header));
  State::Header* before = nullptr;
  State::Header** link = &state_->gaps;
  while (*link != nullptr && std::less<>()(*link, block)) {
    before = *link;
    link = &before->next;
  }
  block->next = *link;
  *link = block;
  const auto join_next = [](State::Header* gap) {
    State::Header* const next = gap->next;
    if (next == nullptr || !State::joins(gap, next)) return;
    gap->bytes += next->bytes;
    gap->next = next->next;
    ASAN_POISON_MEMORY_REGION(next, sizeof(State::Header));
  };
  join_next(block);
  if (before != nullptr) join_next(before);
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

std::int64_t MemoryPool::all_bytes() noexcept { return bytes_of_all.load(); }

MemoryPool* MemoryPool::current() noexcept { return drawn_from; }

MemoryPool::Use::Use(MemoryPool* pool) noexcept : before_(drawn_from) { drawn_from = pool; }
MemoryPool::Use::~Use() { drawn_from = before_; }

}  // namespace attn
