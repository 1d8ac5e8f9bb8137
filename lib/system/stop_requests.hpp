#pragma once

#include <atomic>
#include <string>

namespace attn {

/// While a StopRequests exists, the first SIGTERM, SIGUSR1, SIGUSR2 or SIGXCPU only asks for a
/// stop, so that work can be kept; the second ends the process as usual. A limit of CPU time sends
/// SIGXCPU every second: further ones are ignored. A signal that the process ignores stays ignored.
/// At most one object at a time.
class StopRequests {
 public:
  StopRequests();
  /// For a process that has no work to keep yet: until work_begins() the first signal removes its
  /// temporaries, writes `line` to standard error (null: nothing) and ends it with `status`.
  StopRequests(int status, const char* line);
  ~StopRequests();
  StopRequests(const StopRequests&) = delete;
  StopRequests& operator=(const StopRequests&) = delete;

  /// From now on, the first signal asks for a stop.
  static void work_begins() noexcept;

  /// The run is about to end. From now on, also after this object, a first signal only asks and
  /// changes nothing; a rank stopped by another rank's signal does not die of its own. No other
  /// object may follow in this process.
  void outlast() noexcept;

  /// Set by the first signal or another caller; may be read at any time.
  static std::atomic<bool>& asked() noexcept;

  /// "SIGTERM": the signal that asked; "" if none did.
  static std::string signal_name();

 private:
  bool outlasts_ = false;
};

}  // namespace attn
