#include "io/target/naming.hpp"

#include <atomic>

namespace attn::io {
namespace {

std::atomic<void (*)() noexcept> besides{nullptr};

}  // namespace

void also_at_naming(void (*keep)() noexcept) { besides.store(keep); }

void keep_besides() noexcept {
  if (const auto keep = besides.load()) keep();
}

}  // namespace attn::io
