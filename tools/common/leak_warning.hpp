#pragma once

#include <vector>

#include "cli/report.hpp"
#include "scheme/scheme.hpp"

namespace attn::tools {

/// Warns once if one of the `schemes` normalises over the queries although the scores are causal:
/// the weights of a query then depend on later queries, which the causal mask does not prevent.
void warn_of_leak(const std::vector<Scheme>& schemes, Causal causal, cli::Report& report);

}  // namespace attn::tools
