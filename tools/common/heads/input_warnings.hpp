#pragma once

#include <vector>

#include "cli/report.hpp"
#include "common/heads/attention_input.hpp"
#include "scheme/scheme.hpp"

namespace attn::tools {

/// Warns of inputs that can be computed but are rarely meant: what warn_of_leak, warn_of_layout and
/// warn_of_mask look for.
void warn_of_input(const std::vector<Scheme>& schemes, const io::InputBundle& bundle,
                   const AttentionInput& input, cli::Report& report);

/// Warns once if one of the `schemes` normalises over the queries although causality or the window
/// hides all later keys: the weights of a query then depend on later queries, which no mask
/// prevents.
void warn_of_leak(const std::vector<Scheme>& schemes, const AttentionInput& input,
                  cli::Report& report);

/// Warns if q and k look like (batch, length, heads, depth) but are read as (batch, heads, length,
/// depth): k would have more heads than keys, at least 16, and `tokens` do not contradict, or
/// `tokens` are as long as the axis of heads.
void warn_of_layout(const io::InputBundle& bundle, const AttentionInput& input,
                    cli::Report& report);

/// Warns of a mask that forbids every pair of a problem, or every pair of a query and the key at
/// its own place in self-attention: it probably has True where a pair is forbidden. Reads some rows
/// of the mask; only if these look so, all that is needed to be sure.
void warn_of_mask(const AttentionInput& input, cli::Report& report);

/// Advice on a mask whose shape (…) does not fit; empty if there is none.
std::string advice_on_mask(const Shape& mask, const AttentionInput& input);

}  // namespace attn::tools
