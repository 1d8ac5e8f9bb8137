#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/heads/attention_input.hpp"
#include "common/options/score_options.hpp"
#include "reports/column_table.hpp"

namespace attn::tools {

/// The word for the bundle's own weights, among the schemes of explain-away-stats.
inline const std::string stored = "stored";

/// The options of explain-away-stats, completed by the bundle's attributes.
struct ColumnOptions {
  ScoreOptions scores;
  std::vector<std::string> schemes;
  std::vector<double> hybrid;      ///< u per head; empty if not needed
  std::optional<Scheme> recorded;  ///< the scheme that made the stored weights
  Stopping stopping;               ///< for sinkhorn, as recorded
  std::optional<Index> sinks;      ///< the number of first keys that count as sinks
  bool rest_on_sink = false;       ///< what stored weights lack to 1 is on a sink
  bool f64 = false;  ///< --precision, else as recorded, else by the type of the datasets

  bool wants(const std::string& scheme) const;

  /// The schemes whose scores are needed, which include the recorded one for stored potentials.
  std::vector<Scheme> scored_schemes() const;

  /// The options of `scheme` for one problem.
  SchemeOptions scheme_options(Scheme scheme, Index problem) const;
};

/// Every combination of the values of --scale and --hybrid, scales first: one point if none of them
/// is a list.
std::vector<SweepPoint> sweep_points(const cli::Arguments& arguments);

/// `arguments` as if the options had been given for `point` only.
cli::Arguments at_point(const cli::Arguments& arguments, const SweepPoint& point);

/// All options but hybrid and f64, which need the shapes. Throws Error(input) for attributes with
/// invalid values, Error(usage) for options that would have no effect.
ColumnOptions resolve_column_options(const cli::Arguments& arguments,
                                     const io::InputBundle& bundle);

/// Whether explain-away-stats can report on the bundle: it has scores; or weights, if only the
/// scheme stored is requested.
bool suffices_for_columns(const cli::Arguments& arguments, const io::InputBundle& bundle);

/// Sets hybrid and f64.
void complete_column_options(const cli::Arguments& arguments, const io::InputBundle& bundle,
                             const AttentionInput& input, ColumnOptions& options);

}  // namespace attn::tools
