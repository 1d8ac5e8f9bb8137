#pragma once

#include <map>
#include <string>
#include <vector>

namespace attn::tools {

/// The SHA-256 of files, by sha256sum of coreutils, in the order of their names. `folder` is a
/// scratch folder. Throws Error(input) if a file cannot be read, or sha256sum not run.
std::map<std::string, std::string> file_digests(const std::vector<std::string>& files,
                                                const std::string& folder);

}  // namespace attn::tools
