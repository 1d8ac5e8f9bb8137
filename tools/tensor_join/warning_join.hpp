#pragma once

#include <string>
#include <vector>

#include "cli/report.hpp"

namespace attn::tools {

/// Joins the ordered warnings of all shards into those of the undivided run. First come warnings
/// without a problem, then warnings of problems by ascending problem, then warnings of largest
/// figures. Each kind of these comes once, with the largest figure.
std::vector<std::string> joined_warnings(
    const std::vector<std::vector<cli::Report::OwnWarning>>& shards);

}  // namespace attn::tools
