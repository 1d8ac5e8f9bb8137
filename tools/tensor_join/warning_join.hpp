#pragma once

#include <string>
#include <vector>

#include "cli/report.hpp"

namespace attn::tools {

/// The warnings of a run with divided problems, from the ordered warnings of its shards, as in the
/// undivided run: first warnings without a problem, then warnings of problems, ascending, then
/// warnings of largest figures, once for each kind.
std::vector<std::string> joined_warnings(
    const std::vector<std::vector<cli::Report::OwnWarning>>& shards);

}  // namespace attn::tools
