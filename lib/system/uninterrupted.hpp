#pragma once

namespace attn {

/// While an Uninterrupted exists, signals whose handler would end the process are deferred, so that
/// work in progress is completed. Keep it short, and never wait for another process meanwhile.
/// Uninterrupted objects may nest. If a handler in another thread is already ending the process,
/// the constructor never returns.
class Uninterrupted {
 public:
  Uninterrupted() noexcept;
  ~Uninterrupted();  ///< The last one raises the deferred signal.
  Uninterrupted(const Uninterrupted&) = delete;
  Uninterrupted& operator=(const Uninterrupted&) = delete;
};

/// Call from a signal handler, in any thread. True: end the process now; no Uninterrupted exists,
/// and no new one can be made. False: return; the signal is raised again later.
bool may_end_process(int signal_number) noexcept;

}  // namespace attn
