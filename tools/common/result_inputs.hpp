#pragma once

#include <set>
#include <string>

#include "common/attention_input.hpp"

namespace attn::tools {

/// The datasets that the weights of a computation are made from, and the optional ones among them
/// that are not there: to add one later changes the weights.
std::set<std::string> score_inputs(const AttentionInput& input);

/// Those, and the ones that out is made from besides.
std::set<std::string> output_inputs(const AttentionInput& input);

}  // namespace attn::tools
