#pragma once

#include <vector>

#include "common/attention_input.hpp"

namespace attn::tools {

/// u per head: --hybrid, else with `recorded` the attribute attn_hybrid, else the dataset hybrid.
/// Throws Error(usage) if there is none, Error(input) if a value lies outside [0, 1].
std::vector<double> hybrid_per_head(const cli::Arguments& arguments, const io::InputBundle& bundle,
                                    const AttentionInput& input, bool recorded);

/// The maximum number of iterations of sinkhorn; 1 for other schemes.
Index most_iterations(const SchemeOptions& options);

/// The number of times the forward computation evaluates all scores; an upper bound for sinkhorn
/// with a tolerance.
double score_passes(const SchemeOptions& options);

}  // namespace attn::tools
