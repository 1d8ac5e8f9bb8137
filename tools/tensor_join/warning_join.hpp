#pragma once

#include <string>
#include <vector>

#include "cli/report.hpp"

namespace attn::tools {

/// The warnings of a run whose problems are divided, from those of its shards in their order, as
/// the undivided run has them: first those of no problem, then those of problems, ascending, then
/// those of largest figures, of which each kind is there once.
std::vector<std::string> joined_warnings(
    const std::vector<std::vector<cli::Report::OwnWarning>>& shards);

}  // namespace attn::tools
