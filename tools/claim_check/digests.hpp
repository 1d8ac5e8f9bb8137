#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace attn::tools {

/// SHA-256, as 64 hexadecimal digits.
std::string sha256(std::string_view text);

/// The SHA-256 of a file's contents; absent if the file cannot be read or is not regular.
std::optional<std::string> sha256_of_file(const std::string& file);

}  // namespace attn::tools
