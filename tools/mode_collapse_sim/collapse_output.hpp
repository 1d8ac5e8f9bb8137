#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "cli/report.hpp"
#include "common/frame/bundles.hpp"
#include "common/outputs/head_outputs.hpp"
#include "common/results/results.hpp"
#include "common/shards/section_share.hpp"
#include "mode_collapse_sim/point_sets.hpp"

namespace attn::tools {

/// INPUT and the datasets of -i, if anything is named.
std::optional<io::InputBundle> open_points(const cli::Arguments& arguments, cli::Report& report);

/// The datasets that --emit selects from `usual`; all without --emit. Throws Error(usage) for a
/// dataset that the verb does not make.
std::set<std::string> emitted_of(const cli::Arguments& arguments,
                                 const std::vector<std::string>& usual);

/// The bundle for the results, and the fate of earlier results.
struct CollapseOutput {
  io::OutputBundle bundle;
  ResultPlan plan;
  SectionShare* share = nullptr;  ///< of a shard

  /// Marks the written results, and the shard, and warns of results that were left out.
  io::OutputBundle take(cli::Report& report);
};

/// The bundle contains `input` without the result groups to be written, without results made from
/// other points and, if points are drawn, without old points.
CollapseOutput open_collapse_output(const cli::Arguments& arguments,
                                    const std::optional<io::InputBundle>& input,
                                    const PointSets& sets, const std::set<std::string>& emitted,
                                    const std::vector<std::string>& groups, SectionShare* share);

/// With --shard: divides the sets, and notes in `sets` which ones the run computes. Throws
/// Error(usage) if there is only one set. `arguments` must outlive the share.
std::optional<SectionShare> divide_sets(const cli::Arguments& arguments, PointSets& sets);

/// Keeps notes of the report on the sets of a shard.
void keep_notes(ReportNotes notes, cli::Report& report, SectionShare& share);

/// The outcome of a shard without sets.
cli::Outcome write_empty_shard(const cli::Arguments& arguments,
                               const std::optional<io::InputBundle>& input, SectionShare& share,
                               cli::Report& report);

/// Writes x and label if points are drawn and --emit has x and label.
template <class T>
void write_drawn_points(const PointSets& sets, const std::set<std::string>& emitted,
                        io::OutputBundle& bundle, HeadOutputs& outputs, cli::Report& report);

}  // namespace attn::tools
