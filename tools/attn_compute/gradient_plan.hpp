#pragma once

#include <string>
#include <vector>

#include "common/heads/attention_input.hpp"
#include "common/outputs/gradient_kind.hpp"

namespace attn::tools {

struct ComputeOptions;

/// Throws Error(usage) if gradients are requested without grad_out (with --join: grad_joined),
/// without values, or for chosen queries.
void require_gradients(const ComputeOptions& options, const io::InputBundle& bundle,
                       bool chooses_queries);

/// The gradients that --emit requests. Throws Error(usage) that names a gradient which the scheme,
/// the energy or the source does not have.
std::vector<GradientKind> gradient_kinds(const ComputeOptions& options, const AttentionInput& input,
                                         const io::InputBundle& bundle, bool hybrid_given);

}  // namespace attn::tools
