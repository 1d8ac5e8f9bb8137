#pragma once

#include "cli/command.hpp"
#include "common/heads/heads.hpp"
#include "explain_away_stats/column_task.hpp"

namespace attn::tools {

/// The memory that gathering needs on each of `ranks` ranks, in float32 or float64. `stops`: with a
/// checkpoint. The task must outlive it.
HeadNeeds column_needs(const ColumnTask& task, bool stops, Index ranks);

}  // namespace attn::tools
