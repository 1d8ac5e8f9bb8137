#pragma once

#include "cli/command.hpp"
#include "io/input.hpp"
#include "shared/column_options.hpp"
#include "shared/column_statistics.hpp"
#include "shared/heads.hpp"

namespace attn::tools {

/// What gathering takes, float32 or float64.
HeadNeeds column_needs(const ColumnOptions& options, const io::InputBundle& bundle,
                       const AttentionInput& input);

/// Column sums and row entropies of every head under every scheme; `progress` counts the heads.
/// Throws what reading and the schemes throw, and Error(input) where stored weights or potentials
/// do not belong to the scores.
ColumnStatistics gather_columns(const cli::Arguments& arguments, const ColumnOptions& options,
                                const io::InputBundle& bundle, const AttentionInput& input,
                                cli::Progress& progress, cli::Report& report);

}  // namespace attn::tools
