#pragma once

#include <atomic>

#include "attnkit/context.hpp"

namespace attn {

/// Results so far are lost, except the states of iterations (kept_state.hpp).

/// A request to give up a long computation: a flag that a signal handler or another thread sets,
/// and that loops look at often.
class StopFlag {
 public:
  /// The flag of this thread; null: nothing stops the thread.
  static const std::atomic<bool>* current() noexcept;

  /// Makes computations of this thread obey `flag` until the end of the scope; null: none. The
  /// workers of a parallel_for obey the flag of its caller.
  class Use {
   public:
    explicit Use(const std::atomic<bool>* flag) noexcept;
    ~Use();
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

   private:
    const std::atomic<bool>* before_;
  };
};

/// Throws Stopped if the flag of this thread is set. For loops whose steps take long; parallel_for
/// calls it before each item.
inline void stop_if_asked() {
  const std::atomic<bool>* const flag = StopFlag::current();
  if (flag != nullptr && flag->load(std::memory_order_relaxed)) throw Stopped();
}

}  // namespace attn
