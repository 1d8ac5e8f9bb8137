#pragma once

#include <vector>

#include "cli/report.hpp"
#include "common/heads/attention_input.hpp"
#include "scheme/scheme.hpp"

namespace attn::tools {

/// Warns once if one of the `schemes` normalises over the queries although causality or the window
/// hides all later keys: the weights of a query then depend on later queries, which no mask
/// prevents.
void warn_of_leak(const std::vector<Scheme>& schemes, const AttentionInput& input,
                  cli::Report& report);

}  // namespace attn::tools
