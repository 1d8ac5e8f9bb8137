#pragma once

#include <functional>
#include <string>

#include "cli/command.hpp"
#include "common/heads.hpp"
#include "explain_away_stats/column_options.hpp"
#include "explain_away_stats/column_statistics.hpp"
#include "io/input.hpp"

namespace attn::tools {

/// The memory that gathering needs, in float32 or float64.
HeadNeeds column_needs(const ColumnOptions& options, const io::InputBundle& bundle,
                       const AttentionInput& input);

/// Receives the result of one head under one scheme; called for the heads in order.
using ColumnSink =
    std::function<void(const std::string& scheme, Index head, const HeadColumns& columns)>;

/// Computes the column sums of every head under every scheme, and the means of its row entropies.
/// The entropies go to `sink` and are not kept. `progress` counts the heads. Throws what reading
/// and the schemes throw, and Error(input) if stored weights or potentials do not match the scores.
ColumnStatistics gather_columns(const cli::Arguments& arguments, const ColumnOptions& options,
                                const io::InputBundle& bundle, const AttentionInput& input,
                                const ColumnSink& sink, cli::Progress& progress,
                                cli::Report& report);

}  // namespace attn::tools
