#pragma once

#include <string>
#include <vector>

#include "io/h5.hpp"

// The groups below another one. Paths are relative to it, without a leading slash; `address` is
// what messages call it. Called under h5::Lock.

namespace attn::io {

/// A group's links sorted by name, numbers in the order of their values: layer2 before layer10.
std::vector<h5::Link> links_by_number(hid_t group, const std::string& address);

/// The groups that `pattern` leads to, a pattern of fnmatch(3) for each level between slashes.
/// Depth first; a group that several links lead to stands under the first that matches.
std::vector<std::string> matching_groups(hid_t group, const std::string& address,
                                         const std::string& pattern);

/// All of them, in the same order, each under the first link that leads to it.
std::vector<std::string> all_groups(hid_t group, const std::string& address);

}  // namespace attn::io
