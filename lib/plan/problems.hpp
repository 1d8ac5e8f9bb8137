#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "attnkit/context.hpp"
#include "attnkit/error.hpp"
#include "parallel/busy_threads.hpp"
#include "parallel/parallel_for.hpp"
#include "parallel/stop_flag.hpp"
#include "tensor/memory_pool.hpp"
#include "tensor/shape.hpp"

namespace attn::plan {

/// Throws Error(usage) for fewer than one thread.
inline int require_threads(int threads) {
  if (threads >= 1) return threads;
  throw Error(Failure::usage, "threads is " + std::to_string(threads) + ", expected at least 1");
}

[[noreturn]] inline void throw_out_of_memory() {
  throw Error(Failure::memory, "out of memory", "smaller batches, or fewer threads");
}

/// Returns body(). Turns the exceptions of containers that do not fit into memory into
/// Error(memory).
template <class Body>
auto within_memory(const Body& body) {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    throw_out_of_memory();
  } catch (const std::length_error&) {
    throw_out_of_memory();
  }
}

/// Makes the implementation of a plan. Throws its errors, and Error(memory) if the plan does not
/// fit.
template <class Impl, class... Arguments>
std::unique_ptr<Impl> make(const Arguments&... arguments) {
  return within_memory([&] { return std::make_unique<Impl>(arguments...); });
}

/// The implementation of a plan. Throws Error(usage) if the plan has been moved from.
template <class Impl>
Impl& alive(const std::unique_ptr<Impl>& impl) {
  if (!impl) throw Error(Failure::usage, "this plan has been moved from");
  return *impl;
}

/// The problems of a plan (positions of its leading axes), the threads that solve them, and the
/// threads' memory, which is kept from run to run. Either each thread solves a problem of its own,
/// or all threads solve one problem after the other (take_items_each).
class Problems {
 public:
  /// At most `parts.most` threads share a problem; more would only take memory. Throws Error(usage)
  /// for fewer than one thread, Error(input) for too many problems.
  Problems(const Shape& leading, const Context& context, const ItemParts& parts)
      : leading_(leading),
        count_(element_count(leading)),
        threads_(require_threads(context.threads)),
        stop_(context.stop),
        progress_(context.progress),
        over_problems_(take_items_each(count_, parts, threads_)),
        inside_(over_problems_ ? 1 : static_cast<int>(std::clamp<Index>(parts.most, 1, threads_))),
        pools_(over_problems_ ? static_cast<std::size_t>(std::clamp<Index>(count_, 1, threads_))
                              : 1) {}

  const Shape& leading() const { return leading_; }
  Index count() const { return count_; }
  int threads() const { return threads_; }

  /// Whether threads share the problems.
  bool over_problems() const { return over_problems_; }

  /// The number of threads that share a problem.
  int inside() const { return inside_; }

  /// The number of problems that are solved at the same time.
  Index at_once() const { return static_cast<Index>(pools_.size()); }

  /// Bytes that a run keeps if its problems allocate at most `of_problem` bytes each, and its other
  /// parts `shared` bytes. Includes room for gaps between blocks of different sizes, and for the
  /// margins of small blocks.
  std::int64_t bytes(std::int64_t of_problem, std::int64_t shared = 0) const {
    return static_cast<std::int64_t>(pools_.size()) * with_gaps(of_problem) + with_gaps(shared);
  }

  /// Calls body() with memory for the body and for its calls of for_each, as `bytes` says. The body
  /// obeys the stop flag of the context; without one, the flag of the thread. Throws Error(usage)
  /// if another call is running, Error(memory) if the memory does not suffice, and Stopped.
  template <class Body>
  auto run(std::int64_t of_problem, std::int64_t shared, const Body& body) {
    const Running running(running_);
    std::optional<StopFlag::Use> obey;
    if (stop_ != nullptr) obey.emplace(stop_);
    done_ = 0;
    return within_memory([&] {
      for (MemoryPool& pool : pools_) pool.reserve(with_gaps(of_problem));
      shared_.reserve(with_gaps(shared));
      const MemoryPool::Use use(&shared_);
      return body();
    });
  }

  /// Calls body(problem, threads) for problems [first, last), each with a pool of its own. Call it
  /// in the body of `run`. An Error names its problem; of several errors, the first one seen is
  /// thrown.
  template <class Body>
  void for_each(Index first, Index last, const Body& body) {
    const auto one = [&](Index problem, int pool) {
      const MemoryPool::Use use(&pools_[static_cast<std::size_t>(pool)]);
      try {
        body(problem, inside_);
      } catch (const Error& error) {
        if (leading_.empty()) throw;
        throw error.at("problem " + index_text(unravel(problem, leading_)));
      }
      report_progress();
    };
    if (over_problems_) {
      parallel_for(last - first, threads_, [&](Index n, int worker) { one(first + n, worker); });
    } else {
      for (Index problem = first; problem < last; ++problem) {
        stop_if_asked();
        one(problem, 0);
      }
    }
  }
  template <class Body>
  void for_each(const Body& body) {
    for_each(0, count_, body);
  }

 private:
  // Marks a plan as running.
  class Running {
   public:
    explicit Running(std::atomic<bool>& running) : running_(running) {
      if (running_.exchange(true)) throw Error(Failure::usage, "this plan is running already");
    }
    ~Running() { running_ = false; }
    Running(const Running&) = delete;
    Running& operator=(const Running&) = delete;

   private:
    std::atomic<bool>& running_;
  };

  void report_progress() {
    if (!progress_) return;
    const std::lock_guard lock(reporting_);
    ++done_;
    progress_(static_cast<double>(done_) / static_cast<double>(count_));
  }

  static std::int64_t with_gaps(std::int64_t bytes) {
    // The unit in which pools hold memory.
    constexpr std::int64_t unit = MemoryPool::block_margin;
    return (bytes + bytes / 4 + (std::int64_t{64} << 10)) / unit * unit;
  }

  Shape leading_;
  Index count_;
  int threads_;
  const std::atomic<bool>* stop_;
  std::function<void(double)> progress_;
  bool over_problems_;
  int inside_;
  MemoryPool shared_;
  std::vector<MemoryPool> pools_;  // one for each problem that is solved at a time
  std::atomic<bool> running_{false};
  std::mutex reporting_;
  Index done_ = 0;  // problems of this run
};

}  // namespace attn::plan
