#pragma once

namespace attn::tools {

/// Whether an allocation of at most 1 GiB has failed in this process, in a library or here. One of
/// more is no sign of it: damaged files have HDF5 ask for absurd sizes. For signal handlers too.
/// Under a sanitizer never.
bool memory_was_short() noexcept;

/// Sees to it that the process, where memory was short, ends with one line and status 6 without
/// temporaries also by std::terminate, or because a library calls exit. Inside HDF5 it ends so at
/// once, whether this was called or not.
void watch_memory();

/// What the tool is to write is in its place: from now on a lack of memory makes no difference to
/// the exit status.
void finish_with(int status) noexcept;

/// The process is about to leave in order: what is called at exit has nothing to do.
void leave_in_order() noexcept;

/// Throws Error(memory), with a hint, where memory was short: a library may have gone on as if what
/// it had no memory for were not there.
void require_memory();

/// To be called where an exception is handled: throws what require_memory() does where memory was
/// short and the failure is of the input or unexpected, as it then only followed; else throws the
/// exception again.
[[noreturn]] void throw_for_memory();

}  // namespace attn::tools
