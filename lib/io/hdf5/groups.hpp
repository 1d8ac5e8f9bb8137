#pragma once

#include <string>
#include <vector>

#include "io/hdf5/open_object.hpp"

// The groups below a group. Paths are relative to that group, without a leading slash; `address` is
// its name in messages. Called under h5::Lock.

namespace attn::io {

/// The groups that match `pattern`: one pattern of fnmatch(3) for each level between slashes, at
/// most 100 levels (Error(usage)).
/// Depth first; a group that several links lead to is listed under the first that matches.
/// Throws Error(input) for a matching link whose target cannot be opened.
std::vector<std::string> matching_groups(const Object& group, const std::string& address,
                                         const std::string& pattern);

/// All groups that can be opened, in the same order, each under the first link that leads to it.
/// For messages.
std::vector<std::string> all_groups(const Object& group, const std::string& address);

}  // namespace attn::io
