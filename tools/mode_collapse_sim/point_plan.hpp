#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "cli/report.hpp"
#include "common/runs/checkpoint.hpp"
#include "mode_collapse_sim/point_sets.hpp"
#include "parallel/parallel_for.hpp"
#include "parallel/stop_flag.hpp"
#include "tensor/shape.hpp"

namespace attn::tools {

/// How sets of points are processed: several at once, one thread each, or one after the other by
/// all threads. Results do not depend on the plan.
struct PointPlan {
  int threads = 1;
  bool over_sets = false;
  std::int64_t bytes = 0;

  int at_once() const { return over_sets ? threads : 1; }
  int inside() const { return over_sets ? 1 : threads; }
};

/// Upper limit of byte counts, beyond any memory.
constexpr std::int64_t most_bytes = std::int64_t{1} << 60;

/// Fits the work into `memory` bytes, with fewer threads if necessary: `kept` bytes are held
/// throughout; each set that `threads` threads process holds `work(threads)` bytes. Both are at
/// most about most_bytes. `work` is not called for sets of more than 2^32 `points`. Throws
/// Error(memory) naming `what`, in any case if most_bytes is reached.
PointPlan plan_points(Index sets, Index points, std::int64_t kept,
                      const std::function<std::int64_t(int)>& work, int threads,
                      std::int64_t memory, const std::string& what);

/// Reports the cost of a run of `what` for --dry-run.
void report_points_cost(const std::string& what, const PointPlan& plan, double result_bytes,
                        double flops, cli::Report& report);

/// Runs `run` on every set to compute, as planned, and passes the results to `keep` in order, on
/// the calling thread. `worker` in [0, plan.at_once()) identifies the thread. With a checkpoint,
/// which needs a function archive(Archive&, Result&), the sets in the checkpoint are taken from
/// there. Throws Stopped if the thread's StopFlag is set.
template <class Result>
void for_each_set(const PointSets& sets, const PointPlan& plan, cli::Report& report,
                  const std::function<Result(Index set, int worker)>& run,
                  const std::function<void(Index set, const Result& result)>& keep,
                  Checkpoint* checkpoint = nullptr) {
  Index first = 0;
  for (; checkpoint != nullptr && checkpoint->has_unit() && first < sets.own_sets(); ++first) {
    stop_if_asked();
    Result found;
    checkpoint->take_unit([&](LoadingArchive& from) { archive(from, found); });
    keep(sets.own_set(first), found);
  }
  if (checkpoint != nullptr) checkpoint->take_states(!plan.over_sets);
  for (; first < sets.own_sets(); first += plan.at_once()) {
    const Index count = std::min<Index>(plan.at_once(), sets.own_sets() - first);
    std::vector<Result> found(static_cast<std::size_t>(count));
    report.compute([&] {
      parallel_for(count, plan.at_once(), [&](Index n, int worker) {
        found[static_cast<std::size_t>(n)] = run(sets.own_set(first + n), worker);
      });
    });
    for (Index n = 0; n < count; ++n) {
      Result& one = found[static_cast<std::size_t>(n)];
      if (checkpoint != nullptr) {
        checkpoint->add_unit([&](SavingArchive& to) { archive(to, one); });
      }
      keep(sets.own_set(first + n), one);
    }
    if (checkpoint != nullptr) checkpoint->write_if_due();
  }
}

/// Whether a checkpoint keeps the state of a set. Several sets at once have no common state.
inline bool keeps_states(const Checkpoint* checkpoint) {
  return checkpoint != nullptr && checkpoint->takes_states();
}

/// Calls steps(keep) for a set, where steps calls keep() after each step; `state` passes the
/// results of the steps so far to an archive. Resumes from the state of an earlier run, and keeps
/// the state of this run if it is stopped.
template <class State>
void with_states(Checkpoint* checkpoint, State& state,
                 const std::function<void(const std::function<void()>& keep)>& steps) {
  if (!keeps_states(checkpoint)) return steps([] {});
  if (checkpoint->has_state()) {
    checkpoint->load_state([&](LoadingArchive& from) { archive(from, state); });
  }
  const auto keep = [&] { checkpoint->keep_state([&](SavingArchive& to) { archive(to, state); }); };
  try {
    steps([&] {
      if (!checkpoint->is_due()) return;
      keep();
      checkpoint->write_if_due();
    });
  } catch (const Stopped&) {
    keep();
    throw;
  }
}

}  // namespace attn::tools
