#include "tensor/large_pages.hpp"

#ifdef __linux__
#include <sys/mman.h>

#include <cstdint>
#endif

namespace attn {

void prefer_large_pages(void* first, std::size_t bytes) {
#ifdef __linux__
  // Whole large pages alone, so that no memory of others is concerned.
  constexpr std::uintptr_t page = std::uintptr_t{2} << 20;
  const auto begin = reinterpret_cast<std::uintptr_t>(first);
  const std::uintptr_t from = (begin + page - 1) / page * page;
  const std::uintptr_t to = (begin + bytes) / page * page;
  if (from < to) madvise(reinterpret_cast<void*>(from), to - from, MADV_HUGEPAGE);
#else
  static_cast<void>(first), static_cast<void>(bytes);
#endif
}

}  // namespace attn
