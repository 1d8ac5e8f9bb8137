#pragma once

namespace attn::io {

/// `keep` is called as soon as a file written by this library has taken its target's name, before
/// any signal is handled: what goes with that file stays from then on. Once for a process.
void also_at_naming(void (*keep)() noexcept);

/// Calls what also_at_naming was given.
void keep_besides() noexcept;

}  // namespace attn::io
