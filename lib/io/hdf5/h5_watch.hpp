#pragma once

#include <cstdint>

// Damaged files can make HDF5 loop forever. A timer on the process's CPU time checks once a second
// whether the thread inside HDF5 still finishes its calls.

namespace attn::io::h5 {

/// Reports that a call of HDF5 has ended or is about to begin. Locks and handles do this; code that
/// makes many calls in a row without either must do it itself.
void beat() noexcept;

/// Reports that the calling thread enters or leaves HDF5, where at most one thread may be. Called
/// by h5::Lock.
void enter_library() noexcept;
void leave_library() noexcept;

/// Suspends the watch while it exists: writing, flushing and closing may take as long as a disk and
/// a compressor need. May nest; used under a Lock.
class Unwatched {
 public:
  Unwatched() noexcept;
  ~Unwatched();
  Unwatched(const Unwatched&) = delete;
  Unwatched& operator=(const Unwatched&) = delete;
};

/// While it exists, a call may take longer than 10 seconds: one second more for every 16 MiB by
/// which `bytes` exceeds 64 MiB, as a slow compressor needs. `bytes` is the unpacked size of all
/// chunks that a read unpacks. Used under a Lock.
class Allowance {
 public:
  explicit Allowance(std::int64_t bytes) noexcept;
  ~Allowance();
  Allowance(const Allowance&) = delete;
  Allowance& operator=(const Allowance&) = delete;
};

/// Starts the timer. A signal handler calls `give_up` if one call has taken more than 10 seconds of
/// its thread's CPU time plus any Allowance. May be called once per process.
void start_watch(void (*give_up)() noexcept) noexcept;

}  // namespace attn::io::h5
