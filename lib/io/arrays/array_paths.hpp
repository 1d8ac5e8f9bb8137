#pragma once

#include <map>
#include <string>
#include <vector>

namespace attn::io {

/// Whether HDF5 can have an object at `path`, relative to a group.
bool can_be_path(const std::string& path);

/// Where the arrays of a file without groups stand among groups: their names by path. In a name,
/// `.` and `/` separate groups as `/` does in HDF5: "blocks.0.attn.hook_q" stands at
/// "blocks/0/attn/hook_q". A name keeps its dots if a part would be empty ("a..b"), if its path
/// would be that of a group ("h.0" beside "h.0.q") or of another array, or lead through an array
/// ("q.weight" beside "q"). A name that no path can have ("a//b", ".", "q/weight" beside "q"), or
/// only one of more than 100 levels or 16 KiB, is left out.
std::map<std::string, std::string> array_paths(const std::vector<std::string>& names);

}  // namespace attn::io
