#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cli/command.hpp"
#include "common/divided_plan.hpp"
#include "common/heads.hpp"
#include "common/rank_inputs.hpp"
#include "explain_away_stats/column_task.hpp"
#include "reports/column_statistics.hpp"

namespace attn::tools {

/// How ranks share heads that are not of divided_schemes: neighbouring rows (rank_inputs) if
/// sinkhorn is among the schemes and all of them are found by rows. Not under dnas and hnas, whose
/// passes by columns would read the rows of other ranks, nor with stored weights or a checkpoint.
RankInputs column_ranks(const cli::Arguments& arguments, const ColumnTask& task);

/// The memory that gathering needs in each of these ranks, in float32 or float64. The task must
/// outlive it.
HeadNeeds column_needs(const ColumnTask& task, const RankInputs& ranks);

/// A scheme under which ranks divide the memory of each head.
struct DividedScheme {
  DividedWants wants;
  DividedPlan plan;
};

/// All schemes, if ranks divide the memory under each of them; else none. Throws Error(memory) that
/// states the bytes needed if some part does not fit, and the errors of find_division.
std::vector<DividedScheme> divided_schemes(const cli::Arguments& arguments, const ColumnTask& task);

/// Receives the result of one head under one scheme, at the first point of a sweep; called for the
/// heads in order.
using ColumnSink =
    std::function<void(const std::string& scheme, Index head,
                       const std::vector<Index>& queries_of_key, const HeadColumns& columns)>;

/// Computes the column sums of every head under every scheme, and the means of its row entropies,
/// at every point of the sweep. Each head is read once, with its masks and projections; the points
/// share what does not depend on them: the counts of allowed pairs, and with equal scales the
/// schemes other than mixtures. Every point has the results of a run of its own, to the last bit.
/// Heads that `checkpoint`, which may be null, holds are taken from there.
/// The entropies go to `sink` and are not kept. `progress` counts the heads. Throws what reading
/// and the schemes throw, and Error(input) if stored weights or potentials do not match the scores.
std::vector<ColumnStatistics> gather_columns(const cli::Arguments& arguments,
                                             const ColumnTask& task, const ColumnSink& sink,
                                             Checkpoint* checkpoint, cli::Progress& progress,
                                             cli::Report& report);

}  // namespace attn::tools
