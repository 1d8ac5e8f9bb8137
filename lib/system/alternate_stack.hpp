#pragma once

namespace attn {

/// Sets up for the calling thread a stack of its own for signal handlers (SA_ONSTACK), once, so
/// that they also run where its own stack has overflown. Where there is one already, or no memory,
/// nothing changes. It goes with the thread.
void ensure_alternate_stack() noexcept;

}  // namespace attn
