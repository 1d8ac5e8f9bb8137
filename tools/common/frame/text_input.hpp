#pragma once

#include <cstddef>
#include <string>

namespace attn::tools {

/// The bytes of a regular file, or of a pipe that the process already has, such as /dev/stdin or
/// <(…) in a shell. `expected` is what it should be, for messages: "a recipe". Throws Error(input)
/// if there is no such file, if it is a folder, a device, a socket or a pipe with a name, if it
/// cannot be read, or if it is larger than `most_bytes`. Any other reader of texts would wait for
/// ever for a pipe, and read /dev/zero until memory ends.
std::string read_text(const std::string& file, std::size_t most_bytes, const std::string& expected);

}  // namespace attn::tools
