#pragma once

#include <cstdint>

#include "common/checkpoint.hpp"
#include "kernel/loop_record.hpp"
#include "kernel/stop_flag.hpp"

namespace attn::tools {

/// What the loops of one head have found, as the state of a checkpoint. The head goes on from there
/// with the same number of threads; with another one it begins anew, as it may take other loops.
class HeadRecord {
 public:
  /// The memory with which a record keeps loops of that size.
  static std::int64_t bytes(std::int64_t of_loops) { return 2 * of_loops; }

  /// Takes at most `bytes` of memory; loops for which there is no room are computed again.
  HeadRecord(Checkpoint& checkpoint, std::int64_t bytes, int threads);

  /// Calls compute() and returns its result; keeps what it has found whenever a write is due, and
  /// if it is stopped.
  template <class Compute>
  auto run(const Compute& compute) {
    const kernel::LoopRecord::Use use(&loops_);
    try {
      return compute();
    } catch (const kernel::Stopped&) {
      keep();
      throw;
    }
  }

 private:
  void keep();

  Checkpoint& checkpoint_;
  int threads_;
  kernel::LoopRecord loops_;
};

/// What ranks ask of each other between the parts of a loop: whether to stop, and, as they share a
/// checkpoint, whether to write it.
kernel::LoopRecord::Options asking(Checkpoint& checkpoint, int threads);

/// Returns compute(), which keeps the state of a head itself. Its loops are not recorded, but ranks
/// that are asked to stop give them up.
template <class Compute>
auto run_with_own_state(Checkpoint& checkpoint, int threads, const Compute& compute) {
  kernel::LoopRecord states(asking(checkpoint, threads));
  const kernel::LoopRecord::UseWithin use(&states);
  return compute();
}

}  // namespace attn::tools
