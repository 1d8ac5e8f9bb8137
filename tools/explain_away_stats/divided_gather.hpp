#pragma once

#include <functional>
#include <vector>

#include "cli/progress.hpp"
#include "common/checkpoint.hpp"
#include "explain_away_stats/column_plan.hpp"
#include "explain_away_stats/column_result.hpp"

namespace attn::tools {

/// All heads, whose memory ranks divide, as for_each_head computes them. Returns the seconds.
template <class T>
double gather_divided(const ColumnTask& task, const std::vector<DividedScheme>& schemes,
                      cli::Progress& progress, const std::function<void(double least_bias)>& look,
                      const std::function<void(Index problem, HeadResult& result)>& keep,
                      Checkpoint* checkpoint);

}  // namespace attn::tools
