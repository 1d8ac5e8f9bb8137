#include "tensor/mapped_memory.hpp"

#include <sys/mman.h>

#include <new>

namespace attn {

MappedMemory::MappedMemory(std::size_t bytes) : bytes_(bytes) {
  if (bytes == 0) return;
  void* found = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (found == MAP_FAILED) throw std::bad_alloc();
  first_ = found;
#ifdef MADV_HUGEPAGE
  // Only advice: nothing depends on whether the system follows it.
  madvise(first_, bytes, MADV_HUGEPAGE);
#endif
}

MappedMemory::~MappedMemory() {
  if (first_ != nullptr) munmap(first_, bytes_);
}

}  // namespace attn
