#include "kernel/ranks.hpp"

#include <utility>

namespace attn::kernel {
namespace {

thread_local Ranks* ranks_of_thread = nullptr;

}  // namespace

Ranks* Ranks::current() noexcept { return ranks_of_thread; }

Ranks::Use::Use(Ranks* ranks) noexcept : before_(std::exchange(ranks_of_thread, ranks)) {}

Ranks::Use::~Use() { ranks_of_thread = before_; }

}  // namespace attn::kernel
