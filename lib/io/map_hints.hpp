#pragma once

#include <string>
#include <vector>

// Hints at the --map that reads arrays under the names that other programs give them.

namespace attn::io {

/// The --map that reads q, k and v from the datasets `there`, if these have names that other
/// programs give them: "--map q=blocks.0.attn.hook_q,k=…,v=…". Empty if it would not read `name`.
std::string hint_on_names(const std::string& name, const std::vector<std::string>& there);

}  // namespace attn::io
