#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/runs/checkpoint.hpp"
#include "parallel/kept_state.hpp"

namespace attn::tools {

/// The iterations of the head in progress, as the state of a checkpoint. If a head has several
/// sequences of iterations, the state belongs to one of them, and those before are computed again.
class HeadState final : public StateKeeper {
 public:
  /// `checkpoint` must take states, and outlive the object.
  explicit HeadState(Checkpoint& checkpoint);

  /// Begins the next sequence of iterations.
  void next() { ++number_; }

  std::span<const std::byte> start() const override;
  bool is_due() override { return checkpoint_.is_due(); }
  void keep(std::span<const std::byte> state) override;

  /// Memory that a state of `state` bytes takes: as computed, as kept, and as read.
  static std::int64_t bytes(std::int64_t state) { return 3 * state; }

 private:
  Checkpoint& checkpoint_;
  std::int64_t number_ = 0;
  std::int64_t number_before_ = 0;  // of the state that was read
  std::vector<std::byte> before_;
};

}  // namespace attn::tools
