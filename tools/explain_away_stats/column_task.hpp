#pragma once

#include <cstdint>
#include <vector>

#include "cli/command.hpp"
#include "common/heads/attention_input.hpp"
#include "common/results/results.hpp"
#include "explain_away_stats/column_options.hpp"
#include "io/input.hpp"
#include "reports/column_statistics.hpp"

namespace attn::tools {

/// One point of a sweep; without a sweep, the only one.
struct ColumnPoint {
  SweepPoint at;
  ColumnOptions options;
  AttentionInput input;
};

/// The task of explain-away-stats for one section: INPUT, or one group of it.
struct ColumnTask {
  /// Checks everything but the numbers. Throws the errors of resolving the options and of
  /// AttentionInput, and Error(input) if stored weights cover only some queries, or stored datasets
  /// do not match the input.
  ColumnTask(const cli::Arguments& arguments, io::InputBundle section);

  /// Whether `bundle` has datasets from which the task can be computed.
  static bool suffices(const cli::Arguments& arguments, const io::InputBundle& bundle);

  /// The effect of the run on results of earlier runs, and the inputs of its own results.
  RunEffect effect(const cli::Arguments& arguments) const;

  void report_params(cli::Report& report) const;
  std::vector<ArraySource> datasets() const { return input.datasets(); }

  ProblemUnits units() const { return ProblemUnits(input.problems); }

  /// The options of the first point. Only scale and hybrid differ between points.
  const ColumnOptions& options() const { return points.front().options; }

  void require_effect_of_sinks(const cli::Arguments& arguments) const;

  io::InputBundle bundle;
  std::vector<ColumnPoint> points;
  AttentionInput input;          ///< for the first point
  std::int64_t table_bytes = 0;  ///< of the text of a table by key or query
};

/// Sets the names of the keys by read_key_names (common/heads/key_names.hpp).
void read_key_names(const io::InputBundle& bundle, const AttentionInput& input,
                    ColumnStatistics& statistics, cli::Report& report);

/// Reports shape and bytes for --dry-run.
void report_column_cost(const cli::Arguments& arguments, const ColumnTask& task,
                        cli::Report& report);

}  // namespace attn::tools
