#pragma once

namespace attn::kernel {

/// To be called before a parallel region of `threads` OpenMP threads, outside of any other: throws
/// Error(memory), with a hint, where that number cannot be started. OpenMP itself would end the
/// process. Costs nothing where a region as large came before.
void require_team(int threads);

/// The largest that require_team has let pass; 1 before.
int largest_team() noexcept;

/// Whether the process has a limit on its memory (ulimit -v, -d).
bool memory_is_limited() noexcept;

}  // namespace attn::kernel
