#pragma once

#include <vector>

#include "cli/command.hpp"
#include "common/divided_plan.hpp"
#include "common/heads.hpp"
#include "common/rank_inputs.hpp"
#include "explain_away_stats/column_task.hpp"

namespace attn::tools {

/// How ranks share heads that are not of divided_schemes: neighbouring rows (rank_inputs) if
/// sinkhorn is among the schemes and all of them are found by rows. Not under dnas and hnas, whose
/// passes by columns would read the rows of other ranks, nor with stored weights; with a checkpoint
/// only under sinkhorn alone.
RankInputs column_ranks(const cli::Arguments& arguments, const ColumnTask& task);

/// The memory that gathering needs in each of these ranks, in float32 or float64. `stops`: with a
/// checkpoint. The task must outlive it.
HeadNeeds column_needs(const ColumnTask& task, bool stops, const RankInputs& ranks);

/// A scheme under which ranks divide the memory of each head.
struct DividedScheme {
  DividedWants wants;
  DividedPlan plan;
};

/// All schemes, if ranks divide the memory under each of them; else none. Throws Error(memory) that
/// states the bytes needed if some part does not fit, and the errors of find_division.
std::vector<DividedScheme> divided_schemes(const cli::Arguments& arguments, const ColumnTask& task);

}  // namespace attn::tools
