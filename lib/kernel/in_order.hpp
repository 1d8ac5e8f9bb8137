#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>

#include "kernel/parallel.hpp"

namespace attn::kernel {

/// Lets the threads that hold items 0, 1, … pass one at a time, in that order.
class Turns {
 public:
  /// Waits until all items before `item` have passed. False: another thread has failed.
  bool wait(Index item) {
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
  std::mutex mutex_;
  std::condition_variable changed_;
  Index next_ = 0;
  bool failed_ = false;
};

/// Calls make(item, lane) for the items [0, count), several at a time, each in a lane of its own,
/// and then add(item, lane), one at a time in the order of the items: sums of what is made have the
/// same bits for any number of threads, with memory for one item per lane. There are
/// min(threads, count) lanes. Errors are those of parallel_for.
template <class Make, class Add>
void add_in_order(Index count, int threads, const Make& make, const Add& add) {
  std::atomic<Index> next = 0;
  Turns turns;
  const Index lanes = std::min<Index>(threads, count);
  parallel_for(lanes, threads, [&](Index lane, int) {
    try {
      for (Index item = next++; item < count; item = next++) {
        stop_if_asked();
        make(item, lane);
        if (!turns.wait(item)) return;
        add(item, lane);
        turns.pass();
      }
    } catch (...) {
      turns.fail();
      throw;
    }
  });
}

}  // namespace attn::kernel
