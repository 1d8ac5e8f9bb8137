#pragma once

#include <string>

namespace attn {

/// The folder part of a path: "out" for out/x.h5, "." for x.h5, "/" for /x.h5.
std::string folder_of(const std::string& path);

/// The path after following symbolic links at the end of `path`, whether or not anything exists
/// there. Never throws for errors of the file system: a path that cannot be followed further is
/// returned as it is.
std::string without_links(std::string path);

/// Whether both paths lead to the same place, whether or not anything exists there: out.h5,
/// ./out.h5 and a symbolic link to it. Hard links to one file are different places. Never throws
/// for errors of the file system.
bool is_same_file(const std::string& one, const std::string& other);

}  // namespace attn
