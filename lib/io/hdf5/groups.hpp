#pragma once

#include <string>
#include <vector>

#include "io/hdf5/open_object.hpp"

// The groups below another one. Paths are relative to it, without a leading slash; `address` is
// what messages call it. Called under h5::Lock.

namespace attn::io {

/// The groups that `pattern` leads to, a pattern of fnmatch(3) for each level between slashes, of
/// which there are at most 100 (Error(usage)).
/// Depth first; a group that several links lead to stands under the first that matches.
/// Throws Error(input) for a link that matches and leads to nothing that can be opened.
std::vector<std::string> matching_groups(const Object& group, const std::string& address,
                                         const std::string& pattern);

/// All of them that can be opened, in the same order, each under the first link that leads to it:
/// for messages.
std::vector<std::string> all_groups(const Object& group, const std::string& address);

}  // namespace attn::io
