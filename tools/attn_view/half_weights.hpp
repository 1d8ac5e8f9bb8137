#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <vector>

#include "attn_view/view_task.hpp"
#include "cli/progress.hpp"
#include "cli/report.hpp"

namespace attn::tools {

/// A weight, from 0 to 1, as float16: rounded to nearest.
std::uint16_t half_of(float weight);

/// The weights of one head under each scheme, (Lq, Lk) in float16; 0 for forbidden pairs and
/// padding.
using HalfWeights = std::array<std::vector<std::uint16_t>, view_schemes.size()>;

/// The bytes of a head's weights under all schemes.
Index half_weights_bytes(const AttentionInput& input);

/// Computes the weights of the heads of a task, and hands them to `keep` in order.
void find_weights(const cli::Arguments& arguments, const ViewTask& task,
                  const std::function<void(Index problem, const HalfWeights& weights)>& keep,
                  cli::Progress& progress, cli::Report& report);

}  // namespace attn::tools
