#pragma once

#include <cstddef>
#include <string>

namespace attn::tools {

/// The bytes of a file or a stream with a name, such as a FIFO. `expected` is what it should be,
/// for messages: "a recipe". Throws Error(input) if there is no such file, if it is a folder, if it
/// cannot be read, or if it is larger than `most_bytes`.
std::string read_text(const std::string& file, std::size_t most_bytes, const std::string& expected);

}  // namespace attn::tools
