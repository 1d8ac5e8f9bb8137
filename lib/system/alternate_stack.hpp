#pragma once

namespace attn {

/// Sets up, once, an alternate stack for the signal handlers (SA_ONSTACK) of the calling thread, so
/// that they run even after the thread's own stack has overflowed. Does nothing if the thread
/// already has one or memory is short. The stack is freed when the thread ends.
void ensure_alternate_stack() noexcept;

}  // namespace attn
