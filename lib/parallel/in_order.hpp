#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "parallel/parallel_for.hpp"
#include "tensor/pooled_vector.hpp"

namespace attn {

/// Lets the threads that hold items 0, 1, … pass one at a time, in that order.
class Turns {
 public:
  /// Waits until all items before `item` have passed. False: another thread has failed.
  bool wait(Index item) {
    // The item before is often about to pass; sleeping and waking would take longer.
    for (int n = 0; n < yields_before_sleep; ++n) {
      if (failed_) return false;
      if (next_ == item) return true;
      std::this_thread::yield();
    }
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] { return next_ == item || failed_; });
    return !failed_;
  }
  void pass() {
    const std::lock_guard<std::mutex> lock(mutex_);
    ++next_;
    changed_.notify_all();
  }
  void fail() {
    const std::lock_guard<std::mutex> lock(mutex_);
    failed_ = true;
    changed_.notify_all();
  }

 private:
  static constexpr int yields_before_sleep = 100;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::atomic<Index> next_ = 0;
  std::atomic<bool> failed_ = false;
};

/// One of the `count` parts of a sum.
struct SumPart {
  Index index = 0;
  Index count = 1;

  bool is_first() const { return index == 0; }
  bool is_last() const { return index == count - 1; }

  /// The part has lines [first, last) of `lines`.
  Index first(Index lines) const { return lines * index / count; }
  Index last(Index lines) const { return lines * (index + 1) / count; }
};

/// The number of parts for sums of this many lines. With parts, several threads add items at once,
/// each to another part. One part for one thread.
inline Index parts_of_sums(Index lines, int threads) {
  constexpr Index least_lines = 128;  // fewer are not worth handing over
  return threads == 1 ? 1 : std::clamp<Index>(lines / least_lines, 1, 32);
}

/// Calls make(item, lane) for the items [0, count), several at a time, each in a lane of its own,
/// and then add(item, lane, SumPart) for each of `parts` in their order. Each part takes one item
/// at a time, in the order of the items: sums have the same bits for any number of threads and
/// parts, and only one item per lane is in memory. There are min(threads, count) lanes. Errors are
/// handled as in parallel_for.
template <class Make, class Add>
void add_in_order(Index count, int threads, Index parts, const Make& make, const Add& add) {
  std::atomic<Index> next = 0;
  PooledVector<Turns> turns(static_cast<std::size_t>(parts));
  const Index lanes = std::min<Index>(threads, count);
  const auto add_item = [&](Index item, Index lane) {
    for (Index part = 0; part < parts; ++part) {
      Turns& turn = turns[static_cast<std::size_t>(part)];
      if (!turn.wait(item)) return false;
      add(item, lane, SumPart{part, parts});
      turn.pass();
    }
    return true;
  };
  parallel_for(lanes, threads, [&](Index lane, int) {
    try {
      for (Index item = next++; item < count; item = next++) {
        stop_if_asked();
        make(item, lane);
        if (!add_item(item, lane)) return;
      }
    } catch (...) {
      for (Turns& turn : turns) turn.fail();
      throw;
    }
  });
}

}  // namespace attn
