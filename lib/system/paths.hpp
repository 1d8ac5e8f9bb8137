#pragma once

#include <string>

namespace attn {

/// The folder that a path lies in: "out" for out/x.h5, "." for x.h5, "/" for /x.h5.
std::string folder_of(const std::string& path);

/// The path that `path` leads to once symbolic links at its end are followed, whether or not
/// anything is there. Never throws for what the file system says: a path that cannot be followed
/// further is returned as it is.
std::string without_links(std::string path);

}  // namespace attn
