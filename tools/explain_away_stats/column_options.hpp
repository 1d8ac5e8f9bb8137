#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/attention_input.hpp"
#include "common/score_options.hpp"

namespace attn::tools {

/// The word for the bundle's own weights, among the schemes of explain-away-stats.
inline const std::string stored = "stored";

/// What explain-away-stats was asked for, completed by what the bundle says of itself.
struct ColumnOptions {
  ScoreOptions scores;
  std::vector<std::string> schemes;
  std::vector<double> hybrid;       ///< u per head; empty where nobody needs it
  std::optional<Scheme> recorded;   ///< the scheme that made the stored weights
  std::optional<Index> iterations;  ///< of sinkhorn, recorded
  std::optional<double> tolerance;  ///< of sinkhorn, recorded
  bool f64 = false;                 ///< --precision, else as recorded, else as the datasets have it

  bool wants(const std::string& scheme) const;

  /// Those whose scores are needed, the recorded one for stored potentials.
  std::vector<Scheme> scored_schemes() const;

  /// What `scheme` needs for one problem.
  SchemeOptions scheme_options(Scheme scheme, Index problem) const;
};

/// Everything but hybrid and f64, which need the shapes. Throws Error(input) on attributes that
/// make no sense, Error(usage) on options that would have no effect.
ColumnOptions resolve_column_options(const cli::Arguments& arguments,
                                     const io::InputBundle& bundle);

/// hybrid and f64.
void complete_column_options(const cli::Arguments& arguments, const io::InputBundle& bundle,
                             const AttentionInput& input, ColumnOptions& options);

}  // namespace attn::tools
