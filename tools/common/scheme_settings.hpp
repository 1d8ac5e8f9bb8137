#pragma once

#include <vector>

#include "common/attention_input.hpp"

namespace attn::tools {

/// u per head: --hybrid, else with `recorded` the attribute attn_hybrid, else the dataset hybrid.
/// Throws Error(usage) where there is none, Error(input) where one lies outside [0, 1].
std::vector<double> hybrid_per_head(const cli::Arguments& arguments, const io::InputBundle& bundle,
                                    const AttentionInput& input, bool recorded);

/// Iterations of sinkhorn, at most; 1 for other schemes.
Index most_iterations(const SchemeOptions& options);

/// How often all scores are made by what goes forward; at most, for sinkhorn until a tolerance is
/// met.
double score_passes(const SchemeOptions& options);

}  // namespace attn::tools
