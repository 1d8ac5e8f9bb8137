#pragma once

#include <cstdint>

// Damaged files make HDF5 loop without end: a timer of the process's CPU time looks, each second,
// whether the thread inside HDF5 still comes from one call to the next.

namespace attn::io::h5 {

/// Says that a call of HDF5 has come to its end, or is about to begin. Locks and handles do; code
/// that makes many calls in a row without either has to.
void beat() noexcept;

/// Says that the calling thread enters or leaves HDF5, being the only one there: h5::Lock.
void enter_library() noexcept;
void leave_library() noexcept;

/// While it exists nothing is watched: writing, flushing and closing may take as long as a disk
/// and a compressor need. May nest; under a Lock.
class Unwatched {
 public:
  Unwatched() noexcept;
  ~Unwatched();
  Unwatched(const Unwatched&) = delete;
  Unwatched& operator=(const Unwatched&) = delete;
};

/// While it exists, a call may take longer than 10 seconds: one second more for every 16 MiB by
/// which `bytes` exceeds 64 MiB, as a slow compressor needs. `bytes` is the unpacked size of all
/// chunks that a read unpacks. Under a Lock.
class Allowance {
 public:
  explicit Allowance(std::int64_t bytes) noexcept;
  ~Allowance();
  Allowance(const Allowance&) = delete;
  Allowance& operator=(const Allowance&) = delete;
};

/// Starts the timer. `give_up` is called by a signal handler where one call has taken more than
/// 10 seconds of its thread's CPU time (and what is allowed besides). Once for a process.
void start_watch(void (*give_up)() noexcept) noexcept;

}  // namespace attn::io::h5
