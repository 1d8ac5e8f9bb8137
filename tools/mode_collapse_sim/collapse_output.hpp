#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "cli/report.hpp"
#include "common/bundles.hpp"
#include "common/head_outputs.hpp"
#include "common/results.hpp"
#include "mode_collapse_sim/point_sets.hpp"

namespace attn::tools {

/// INPUT and what -i names, where anything is named.
std::optional<io::InputBundle> open_points(const cli::Arguments& arguments, cli::Report& report);

/// What --emit asks for of `usual`, which is all there is; everything where it is not given. Throws
/// Error(usage) for a dataset that the verb does not make.
std::set<std::string> emitted_of(const cli::Arguments& arguments,
                                 const std::vector<std::string>& usual);

/// The bundle for the results, and what becomes of earlier ones.
struct CollapseOutput {
  io::OutputBundle bundle;
  ResultPlan plan;

  /// Marks the results that were written, and warns of what was left out.
  io::OutputBundle take(cli::Report& report);
};

/// It holds what `input` does, without the groups of results that are about to be written, the
/// points that are drawn anew, and what was made from other points.
CollapseOutput open_collapse_output(const cli::Arguments& arguments,
                                    const std::optional<io::InputBundle>& input,
                                    const PointSets& sets, const std::set<std::string>& emitted,
                                    const std::vector<std::string>& groups);

/// Where points are drawn, writes x and label as far as they are emitted.
template <class T>
void write_drawn_points(const PointSets& sets, const std::set<std::string>& emitted,
                        io::OutputBundle& bundle, HeadOutputs& outputs, cli::Report& report);

}  // namespace attn::tools
