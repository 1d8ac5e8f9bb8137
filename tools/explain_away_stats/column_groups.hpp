#pragma once

#include <string>
#include <vector>

#include "explain_away_stats/column_statistics.hpp"

namespace attn::tools {

/// What is kept of the column sums of one group of --each.
struct GroupColumns {
  std::string group;  ///< "text/wiki/layer0"; "" where INPUT itself is all there is
  Shape leading;
  std::vector<std::string> schemes;
  ColumnSummaries summaries;
};

/// For people: per scheme a table with a row per group and a column per head, of the share of keys
/// explained away at the first epsilon or, where there are none, the least column sum; with all
/// groups and all heads pooled. At most 100 columns: more heads go into further tables, and the
/// groups' common beginning is said once.
std::string groups_report(const std::vector<GroupColumns>& groups, const SummaryOptions& options);

/// For programs: the figures of every group, head and scheme as tab-separated values below a line
/// of names. Numbers round-trip, what is unknown is empty.
std::string groups_tsv(const std::vector<GroupColumns>& groups, const SummaryOptions& options);

}  // namespace attn::tools
