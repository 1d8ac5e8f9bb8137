#pragma once

namespace attn::tools {

/// While it exists, the first SIGTERM or SIGUSR1 only asks for a stop, and the second one has its
/// usual effect. A signal that the process ignores stays ignored. At most one at a time.
class StopRequests {
 public:
  StopRequests();
  ~StopRequests();
  StopRequests(const StopRequests&) = delete;
  StopRequests& operator=(const StopRequests&) = delete;

  /// Whether a stop was asked for.
  static bool received() noexcept;
};

}  // namespace attn::tools
