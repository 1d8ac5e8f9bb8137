#pragma once

#include <cstddef>
#include <string>

namespace attn::tools {

/// The bytes of a regular file, or of a pipe that the process already has, such as /dev/stdin or
/// <(…) in a shell. `expected` describes the file in messages: "a recipe". Throws Error(input) if
/// there is no such file, if it is a folder, a device, a socket or a named pipe, if it cannot be
/// read, or if it is larger than `most_bytes`. Otherwise reading could wait forever for a pipe, or
/// read /dev/zero until memory ends.
std::string read_text(const std::string& file, std::size_t most_bytes, const std::string& expected);

}  // namespace attn::tools
