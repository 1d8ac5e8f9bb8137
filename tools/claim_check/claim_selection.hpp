#pragma once

#include <string>
#include <vector>

#include "claim_check/claims.hpp"
#include "cli/command.hpp"

namespace attn::tools {

/// The claims that --select and --skip leave, in order. Throws Error(usage) for a word that is
/// neither an id nor a tag, and if no claim is left.
std::vector<Claim> selected(const cli::Arguments& arguments, const std::vector<Claim>& claims);

/// The text of --list: id, source, tags and statement.
std::string listing(const std::vector<Claim>& claims);

}  // namespace attn::tools
