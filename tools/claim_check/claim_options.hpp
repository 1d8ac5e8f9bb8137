#pragma once

#include "cli/command.hpp"

namespace attn::tools {

inline constexpr const char* diff_verb = "diff";
inline constexpr const char* history_verb = "history";

/// The options of claim-check.
cli::Declaration claim_options();

}  // namespace attn::tools
