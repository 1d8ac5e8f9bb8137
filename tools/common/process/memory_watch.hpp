#pragma once

namespace attn::tools {

/// Whether an allocation of at most 1 GiB has failed in this process, in a library or here. Larger
/// allocations do not count, since damaged files make HDF5 ask for absurd sizes. For signal
/// handlers too. Always false under a sanitizer.
bool memory_was_short() noexcept;

/// Makes the process end with one line and status 6, without temporaries, if memory was short and
/// it ends by std::terminate or because a library calls exit. Inside HDF5, the process ends at once
/// even without this call.
void watch_memory();

/// Call once the output is in place: from now on, a lack of memory does not change the exit status.
void finish_with(int status) noexcept;

/// Call before an orderly exit: handlers that run at exit then do nothing.
void leave_in_order() noexcept;

/// Throws Error(memory), with a hint, if memory was short: a library may have continued as if the
/// data for which it had no memory did not exist.
void require_memory();

/// Call in a catch block. If memory was short, and the failure concerns the input or is unexpected,
/// throws what require_memory() throws, since that failure is a consequence; else rethrows the
/// exception.
[[noreturn]] void throw_for_memory();

}  // namespace attn::tools
