#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cli/command.hpp"
#include "common/runs/checkpoint.hpp"
#include "explain_away_stats/column_task.hpp"
#include "reports/column_statistics.hpp"

namespace attn::tools {

/// Declares the formulas, datasets, results and references of explain-away-stats for its man page.
void declare_column_datasets(cli::Declaration& declaration);

/// Called for each head, in order, and each scheme, with the result at the first point of the
/// sweep. Results at other points are not shown to it.
using ColumnSink =
    std::function<void(const std::string& scheme, Index head,
                       const std::vector<Index>& queries_of_key, const HeadColumns& columns)>;

/// Computes the column sums of every head under every scheme, and the means of its row entropies,
/// at every point of the sweep. Each head is read once, with its masks and projections; the points
/// share the counts of allowed pairs and, with equal scales, the schemes other than mixtures. Every
/// point has the results of a separate run, to the last bit. Heads that `checkpoint`, which may be
/// null, holds are taken from there. The entropies go to `sink` and are not kept. `progress` counts
/// the heads. Throws what reading and the schemes throw, and Error(input) if stored weights or
/// potentials do not match the scores.
std::vector<ColumnStatistics> gather_columns(const cli::Arguments& arguments,
                                             const ColumnTask& task, const ColumnSink& sink,
                                             Checkpoint* checkpoint, cli::Progress& progress,
                                             cli::Report& report);

}  // namespace attn::tools
