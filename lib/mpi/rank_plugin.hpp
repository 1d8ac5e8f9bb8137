#pragma once

#include <cstddef>
#include <cstdint>

#include "kernel/ranks.hpp"

// The interface between the tools and attn-mpi.so, the only file that is linked with MPI. The tools
// load it when they run as several ranks; they are compiled without MPI.

namespace attn::mpi {

class ProcessRanks;

struct Settings {
  /// A rank waits for a message for at most so long.
  double timeout_s = 3600;

  /// MPI starts, and ends, within so long.
  double start_timeout_s = 3600;

  /// Longer messages are sent in pieces, of less than 2 GiB. As these arrive a rank sees that a
  /// message is on its way, and asks for more without a pause: where processes cannot read each
  /// other's memory, MPI moves only some 100 kB whenever it is called.
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
class ProcessRanks : public kernel::Ranks {
 public:
  /// The bytes of messages that this rank has sent so far: what `send` and `gather` were given to
  /// send, where `gather` passes each part on to the next rank around the ring.
  virtual std::int64_t sent_bytes() const = 0;

  /// Of a rank other than 0: tells rank 0 that it has failed, and waits to be ended by it, for some
  /// timeout_s. `lines` are its messages.
  virtual void fail(int status, const char* lines) = 0;

  /// Ends all ranks at once; the status is that of mpirun, too.
  [[noreturn]] virtual void abort(int status) = 0;

  /// Called by all ranks at the end: nothing can be sent afterwards. Each goes on as a process of
  /// its own.
  virtual void finish() = 0;
};

}  // namespace attn::mpi

extern "C" {

/// Begins to use MPI; called once. The object is never destroyed. Null: this MPI cannot be called
/// from more than one thread.
attn::mpi::ProcessRanks* attn_start_ranks(const attn::mpi::Settings* settings);
}
