#pragma once

#include <toml++/toml.h>

#include <string>

namespace attn::tools {

/// Parses a TOML file of at most 64 MiB. `expected` describes the file in messages: "a file of
/// claims". Throws Error(input) "FILE:LINE: …" for text that is not TOML, for a key of more than 32
/// parts and for more than 32 nested brackets; for files that are no text; the errors of read_text.
toml::table parse_toml(const std::string& file, const std::string& expected);

}  // namespace attn::tools
