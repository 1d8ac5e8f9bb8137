#pragma once

#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/frame/section_name.hpp"
#include "reports/column_statistics.hpp"

namespace attn::tools {

/// The statistics kept for one section of several.
struct GroupColumns : HeadAxes {
  SectionName section;
  std::vector<std::string> schemes;
  ColumnSummaries summaries;
  std::string terms;  ///< as in ColumnStatistics
};

/// The report on several groups for people. For each scheme, tables with a row per group and a
/// column per head, each of one quantity and pooled over the batch: the share of keys explained
/// away (one table per epsilon, if there are any), the least c, the mean entropy, and the largest
/// c/n; then the histograms, and the keys with the least and the most attention, of all groups. At
/// most 100 columns wide: more heads go into further tables, and the groups' common prefix is
/// printed once. `histograms` are pooled over the groups, by name of the scheme.
std::string groups_report(const std::vector<GroupColumns>& groups,
                          const ColumnSummaryOptions& options,
                          const std::vector<std::pair<std::string, PooledHistogram>>& histograms);

/// The terms of all groups, as a line with its end: "causal top-left, softcap 50"; if they differ,
/// "causal top-left (3 groups), none (1 group)". Empty if no group has any.
std::string terms_line(std::span<const GroupColumns> groups);

/// min_queries in a sentence: "at least 25 queries"; if absent, because heads or groups differ, "at
/// least a tenth of the sequence's queries".
std::string enough_words(const std::optional<Index>& min_queries);
std::string enough_words(std::span<const GroupColumns> groups);

}  // namespace attn::tools
