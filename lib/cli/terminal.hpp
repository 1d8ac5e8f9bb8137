#pragma once

#include <string>
#include <string_view>

namespace attn::cli {

/// Whether standard output (error) is a terminal.
bool stdout_is_terminal();
bool stderr_is_terminal();

/// Writes all of `text` to a file descriptor. Throws Error(output) with `what` and the reason:
/// "standard output: no space left on device".
void write_all(int descriptor, std::string_view text, const std::string& what);

/// To standard error; failures are passed over, as there is nowhere to tell of them.
void write_error(std::string_view text) noexcept;

/// Makes file descriptors 0 to 2 exist, so that no file the tool opens takes the place of one that
/// the caller had closed; use of one that was closed still fails.
void secure_standard_streams();

}  // namespace attn::cli
