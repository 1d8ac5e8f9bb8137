#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "parallel/stop_flag.hpp"

namespace attn {

/// Keeps where a long iteration stands, so that another process can go on from there, to the same
/// bits.
class StateKeeper {
 public:
  virtual ~StateKeeper() = default;

  /// The state from which to go on; empty: from the beginning.
  virtual std::span<const std::byte> start() const = 0;

  /// Asked before each step: whether a state should be kept now.
  virtual bool is_due() = 0;

  virtual void keep(std::span<const std::byte> state) = 0;
};

/// The state of an iteration whose steps a keeper follows.
class KeptState {
 public:
  /// Calls visit(bytes) for each piece of the memory of the state. The size of a piece may follow
  /// from the contents of those before it.
  using Visit = std::function<void(std::span<std::byte> bytes)>;
  using Memory = std::function<void(const Visit& visit)>;

  /// `keeper` may be null: then nothing is kept.
  KeptState(StateKeeper* keeper, Memory memory);

  bool is_kept() const { return keeper_ != nullptr; }

  /// Fills the memory with the state from which to go on; false if there is none. Throws
  /// Error(input) if that state has another size.
  bool take();

  /// A step is about to begin.
  void step_begins();

  /// Calls body(), the steps. If they are stopped, keeps the state as the latest one began; so
  /// does their end, as what follows them may be stopped, too.
  template <class Body>
  void run(const Body& body) {
    try {
      body();
    } catch (const Stopped&) {
      keep();
      throw;
    }
    keep();
  }

 private:
  void keep();

  StateKeeper* keeper_;
  Memory memory_;
  std::vector<std::byte> latest_;  // as the latest step began
};

}  // namespace attn
