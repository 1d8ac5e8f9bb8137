#pragma once

namespace attn::io {

/// `keep` is called as soon as a file written by this library has been renamed to its target,
/// before any signal is handled: files that belong to it are kept from then on. May be called once
/// per process.
void also_at_naming(void (*keep)() noexcept);

/// Calls the function passed to also_at_naming.
void keep_besides() noexcept;

}  // namespace attn::io
