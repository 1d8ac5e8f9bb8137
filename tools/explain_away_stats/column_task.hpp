#pragma once

#include "cli/command.hpp"
#include "common/attention_input.hpp"
#include "common/results.hpp"
#include "explain_away_stats/column_options.hpp"
#include "explain_away_stats/column_statistics.hpp"
#include "io/input.hpp"

namespace attn::tools {

/// What explain-away-stats has to do for one section: INPUT, or one group of it.
struct ColumnTask {
  /// Looks at everything but the numbers. Throws what resolving the options and AttentionInput
  /// throw, and Error(input) where stored weights are those of some queries only, or what is stored
  /// does not fit the input.
  ColumnTask(const cli::Arguments& arguments, io::InputBundle section);

  /// What results of earlier runs depend on, and what this run makes its own from.
  RunEffect effect(const cli::Arguments& arguments) const;

  void report_params(cli::Report& report) const;
  std::vector<io::InputDataset> datasets() const { return input.datasets(); }

  io::InputBundle bundle;
  ColumnOptions options;
  AttentionInput input;
};

/// Takes the names of the keys from the dataset tokens, where there is one: (Lk), or (B, Lk) for
/// the outermost of the leading axes. Warns where it is of another shape or type.
void read_key_names(const io::InputBundle& bundle, ColumnStatistics& statistics,
                    cli::Report& report);

/// Shape and bytes of what would be done, for --dry-run.
void report_column_cost(const cli::Arguments& arguments, const ColumnTask& task,
                        cli::Report& report);

}  // namespace attn::tools
