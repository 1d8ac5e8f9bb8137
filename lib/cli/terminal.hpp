#pragma once

#include <string>
#include <string_view>

namespace attn::cli {

bool stderr_is_terminal();

/// Writes all of `text` to a file descriptor. Throws Error(output) with the name of the destination
/// and the reason: "standard output: no space left on device".
void write_all(int descriptor, std::string_view text, const std::string& destination);

/// Writes to standard error and ignores failures, which could not be reported anywhere.
void write_error(std::string_view text) noexcept;

/// Opens the descriptors among 0 to 2 that the caller has closed, so that no file of the tool takes
/// their numbers. Reading or writing them still fails.
void secure_standard_streams();

}  // namespace attn::cli
