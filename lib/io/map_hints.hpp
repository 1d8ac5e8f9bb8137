#pragma once

#include <map>
#include <string>
#include <vector>

// Hints at the --map that reads arrays under the names that other programs give them.

namespace attn::io {

/// A hint for files of arrays that have no groups, but names such as "blocks.0.attn.q" or
/// "layer0/q": the --map that reads the arrays of the first such group that `pattern` matches
/// (fnmatch(3), where dots are slashes), as `renamed` (the tool's name, the stored one) calls them,
/// or q, k and v. Empty if no name has parts.
std::string hint_of_flat_names(const std::vector<std::string>& names, const std::string& pattern,
                               const std::map<std::string, std::string>& renamed);

/// The --map that reads q, k and v from the datasets `there`, if these have names that other
/// programs give them: "--map q=blocks.0.attn.hook_q,k=…,v=…". Empty if it would not read `name`.
std::string hint_on_names(const std::string& name, const std::vector<std::string>& there);

}  // namespace attn::io
