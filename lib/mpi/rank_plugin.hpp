#pragma once

#include <cstddef>
#include <cstdint>

#include "parallel/ranks.hpp"

// The interface between the tools and attn-mpi.so, the only file that is linked with MPI. The tools
// load it when they run as several ranks; they are compiled without MPI.

namespace attn::mpi {

class ProcessRanks;

struct Settings {
  /// The longest time that a rank waits for a message.
  double timeout_s = 3600;

  /// The longest time in which MPI starts, or ends.
  double start_timeout_s = 3600;

  /// Longer messages are sent in pieces, of less than 2 GiB. As pieces arrive, a rank sees that a
  /// message is on its way, and polls without a pause: if processes cannot read each other's
  /// memory, MPI moves only some 100 kB per call.
  std::size_t piece_bytes = std::size_t{256} << 10;

  /// Called, on the thread that waits, when rank `rank` has sent or taken nothing for timeout_s.
  /// Must end the process. `own` are the ranks of this process.
  void (*on_lost)(ProcessRanks& own, int rank, double timeout_s) = nullptr;

  /// Called, on a thread of its own, when MPI has not started or not ended within start_timeout_s:
  /// a rank is missing, but MPI does not say which. Must end the process.
  void (*on_stuck)(double timeout_s) = nullptr;

  /// Called on rank 0, on a thread of its own, when rank `rank` has called fail(status, lines).
  /// Must end the process.
  void (*on_failed)(ProcessRanks& own, int rank, int status, const char* lines) = nullptr;
};

/// The processes that MPI has started together.
class ProcessRanks : public Ranks {
 public:
  /// The bytes of messages that this rank has sent so far: the arguments of `send`, and the parts
  /// that `gather` passes on to the next rank around the ring.
  virtual std::int64_t sent_bytes() const = 0;

  /// Called by a rank other than 0: tells rank 0 that this rank has failed, with its messages
  /// `lines`, and waits for about timeout_s to be ended by rank 0.
  virtual void fail(int status, const char* lines) = 0;

  /// Ends all ranks at once; mpirun ends with the same status.
  [[noreturn]] virtual void abort(int status) = 0;

  /// Called by all ranks at the end; nothing can be sent afterwards. Each continues as a separate
  /// process.
  virtual void finish() = 0;
};

}  // namespace attn::mpi

extern "C" {

/// Begins to use MPI; called once. The object is never destroyed. Null: this MPI cannot be called
/// from more than one thread.
attn::mpi::ProcessRanks* attn_start_ranks(const attn::mpi::Settings* settings);
}
