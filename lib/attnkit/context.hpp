#pragma once

#include <atomic>
#include <exception>
#include <functional>
#include <utility>

namespace attn {

/// Thrown by a run that was asked to stop (Context::stop). Its outputs are unspecified, and the
/// plan can run again.
class Stopped : public std::exception {
 public:
  const char* what() const noexcept override { return "stopped"; }
};

/// How the runs of a plan compute, and who watches them. A number of threads alone is a context:
///
///   attn::AttentionPlan<float> plan(shapes, options, 4);
///   attn::AttentionPlan<float> watched(shapes, options, {4, &stop, [](double done) { … }});
struct Context {
  Context(int thread_count, const std::atomic<bool>* stop_flag = nullptr,
          std::function<void(double done)> report = {})
      : threads(thread_count), stop(stop_flag), progress(std::move(report)) {}

  /// >= 1, else Error(usage). They share the problems, or work together on one problem at a time if
  /// there are fewer problems than threads. No result depends on their number.
  int threads;

  /// A flag that another thread or a signal handler may set. A run looks at it before each problem
  /// and each tile, and throws Stopped once it is set. Null: nothing stops a run. It must outlive
  /// the plan.
  const std::atomic<bool>* stop;

  /// Called after each problem with the share of the problems that are done, which grows to 1. One
  /// thread calls it at a time, not always the thread that called `run`. It must not run the plan.
  /// An exception that it throws ends the run. Empty: not called.
  std::function<void(double done)> progress;
};

}  // namespace attn
