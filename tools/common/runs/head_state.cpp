#include "common/runs/head_state.hpp"

#include "common/runs/checkpoint_record.hpp"

namespace attn::tools {

HeadState::HeadState(Checkpoint& checkpoint) : checkpoint_(checkpoint) {
  if (!checkpoint.has_state()) return;
  checkpoint.load_state([&](LoadingArchive& from) {
    archive(from, number_before_);
    archive(from, before_);
  });
}

std::span<const std::byte> HeadState::start() const {
  return number_ == number_before_ ? std::span(before_) : std::span<const std::byte>();
}

void HeadState::keep(std::span<const std::byte> state) {
  // The file has a later state.
  if (number_ < number_before_) return;
  checkpoint_.keep_state([&](SavingArchive& to) {
    std::vector<std::byte> copy(state.begin(), state.end());
    archive(to, number_);
    archive(to, copy);
  });
  checkpoint_.write_if_due();
}

}  // namespace attn::tools
