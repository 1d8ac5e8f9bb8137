#pragma once

#include <string>

namespace attn::io {

/// The path that `path` leads to once symbolic links at its end are followed, whether or not
/// anything is there. Never throws for what the file system says: a path that cannot be followed
/// further is returned as it is.
std::string without_links(std::string path);

}  // namespace attn::io
