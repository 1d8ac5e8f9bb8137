#pragma once

#include <map>
#include <string>
#include <vector>

namespace attn::io {

/// A hint for files of arrays that have no groups, but names such as "blocks.0.attn.q" or
/// "layer0/q": the --map that reads the arrays of the first such group that `pattern` matches
/// (fnmatch(3), where dots are slashes), as `renamed` (the tool's name, the stored one) calls them,
/// or q, k and v. Empty if no name has parts.
std::string hint_of_flat_names(const std::vector<std::string>& names, const std::string& pattern,
                               const std::map<std::string, std::string>& renamed);

}  // namespace attn::io
