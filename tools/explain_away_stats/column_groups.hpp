#pragma once

#include <string>
#include <vector>

#include "explain_away_stats/column_statistics.hpp"

namespace attn::tools {

/// The statistics kept for one group of --each.
struct GroupColumns {
  std::string group;  ///< "text/wiki/layer0"; "" for INPUT itself
  Shape leading;
  std::vector<std::string> schemes;
  ColumnSummaries summaries;
};

/// A report for people: per scheme a table with a row per group and a column per head, of the share
/// of keys explained away at the first epsilon or, if there are none, the least column sum; also
/// pooled over all groups and all heads. At most 100 columns wide: more heads go into further
/// tables, and the groups' common prefix is printed once.
std::string groups_report(const std::vector<GroupColumns>& groups, const SummaryOptions& options);

/// A report for programs: the figures of every group, head and scheme as tab-separated values with
/// a header line. Numbers round-trip; unknown values are empty.
std::string groups_tsv(const std::vector<GroupColumns>& groups, const SummaryOptions& options);

}  // namespace attn::tools
