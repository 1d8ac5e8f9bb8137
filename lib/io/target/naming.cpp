#include "io/target/naming.hpp"

#include <atomic>

namespace attn::io {
namespace {

std::atomic<void (*)() noexcept> keep_too{nullptr};

}  // namespace

void also_at_naming(void (*keep)() noexcept) { keep_too.store(keep); }

void keep_besides() noexcept {
  if (const auto keep = keep_too.load()) keep();
}

}  // namespace attn::io
