#pragma once

#include <span>
#include <string>
#include <vector>

#include "reports/column_groups.hpp"

namespace attn::tools {

/// The number of heads above which a report is a page, unless the tables are asked for.
constexpr Index most_heads_in_tables = 24;

/// Whether the report on these groups is a page.
bool makes_page(std::span<const GroupColumns> groups, const ColumnSummaryOptions& options);

/// One page on many heads: what is explained away in one sentence, ten heads that stand out and
/// why, and a line of figures for each group. Heads stand out under the first scheme: by the share
/// of keys explained away, by a key with a large mean weight, or by the least entropy.
std::string column_page(std::span<const GroupColumns> groups, const ColumnSummaryOptions& options);

}  // namespace attn::tools
