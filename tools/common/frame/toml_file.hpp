#pragma once

#include <toml++/toml.h>

#include <string>

namespace attn::tools {

/// Parses a TOML file of at most 64 MiB. `expected` is what it should be, for messages: "a file of
/// claims". Throws Error(input) "FILE:LINE: …" for what is not TOML, and the errors of read_text
/// and require_shallow_toml.
toml::table parse_toml(const std::string& file, const std::string& expected);

}  // namespace attn::tools
