#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "claim_check/claims.hpp"
#include "cli/command.hpp"

namespace attn::tools {

/// The claims that --select and --skip leave, in order. Throws Error(usage) for a word that is
/// neither an id nor a tag, and if no claim is left.
std::vector<Claim> selected(const cli::Arguments& arguments, const std::vector<Claim>& claims);

/// The text of --list: id, source, tags, statement and command.
std::string listing(const std::vector<Claim>& claims);

/// The text of --dry-run: id, place and command of each claim, and the folder that is its $CLAIMS.
std::string commands_text(const std::vector<Claim>& claims);

/// {"claims", "list": [{"id", "source", "statement", "tags", "file", "line", "command"}]}.
nlohmann::ordered_json commands_json(const std::vector<Claim>& claims);

}  // namespace attn::tools
