#pragma once

#include <set>
#include <string>

#include "common/heads/attention_input.hpp"

namespace attn::tools {

/// The datasets that determine the weights, including missing optional ones: adding one of these
/// later changes the weights.
std::set<std::string> score_inputs(const AttentionInput& input);

/// score_inputs and the other datasets that determine out.
std::set<std::string> output_inputs(const AttentionInput& input);

}  // namespace attn::tools
