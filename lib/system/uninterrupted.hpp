#pragma once

namespace attn {

/// While one of these exists, a signal that a handler would end the process with waits: what is
/// done meanwhile is done whole. Keep it short, and never wait for another process in it. They may
/// nest. Where a handler is ending the process already, in another thread, the constructor never
/// returns.
class Uninterrupted {
 public:
  Uninterrupted() noexcept;
  ~Uninterrupted();  ///< The last one raises the signal that has waited.
  Uninterrupted(const Uninterrupted&) = delete;
  Uninterrupted& operator=(const Uninterrupted&) = delete;
};

/// For the handler of a signal, in any thread. True: end the process now; no Uninterrupted exists,
/// and none will be made any more. False: return; the signal is raised again later.
bool may_end_process(int signal_number) noexcept;

}  // namespace attn
