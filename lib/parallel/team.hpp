#pragma once

namespace attn {

/// Must be called before a parallel region of `threads` OpenMP threads, outside of any other.
/// Throws Error(memory), with a hint, if that many threads cannot be started; OpenMP itself would
/// end the process. Costs nothing after a region as large.
void require_team(int threads);

/// The largest team that require_team has allowed so far; initially 1.
int largest_team() noexcept;

/// Whether the process has a limit on its memory (ulimit -v, -d).
bool memory_is_limited() noexcept;

}  // namespace attn
