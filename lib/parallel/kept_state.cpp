#include "parallel/kept_state.hpp"

#include <cstring>
#include <utility>

#include "attnkit/error.hpp"

namespace attn {

KeptState::KeptState(StateKeeper* keeper, Memory memory)
    : keeper_(keeper), memory_(std::move(memory)) {}

bool KeptState::take() {
  if (keeper_ == nullptr || keeper_->start().empty()) return false;
  std::span<const std::byte> left = keeper_->start();
  const auto require = [](bool fits) {
    if (!fits) throw Error(Failure::input, "the state of an iteration has another size");
  };
  memory_([&](std::span<std::byte> bytes) {
    require(bytes.size() <= left.size());
    if (!bytes.empty()) std::memcpy(bytes.data(), left.data(), bytes.size());
    left = left.subspan(bytes.size());
  });
  require(left.empty());
  return true;
}

void KeptState::step_begins() {
  if (keeper_ == nullptr) return;
  latest_.clear();
  memory_([&](std::span<std::byte> bytes) {
    latest_.insert(latest_.end(), bytes.begin(), bytes.end());
  });
  if (keeper_->is_due()) keep();
}

void KeptState::keep() {
  if (!latest_.empty()) keeper_->keep(latest_);
}

}  // namespace attn
