#pragma once

#include <string>

namespace attn::io {

/// The path after following symbolic links at the end of `path`, whether or not anything exists
/// there. Never throws for errors of the file system: a path that cannot be followed further is
/// returned as it is.
std::string without_links(std::string path);

}  // namespace attn::io
