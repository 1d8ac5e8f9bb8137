#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "reports/column_statistics.hpp"

namespace attn::tools {

/// The report of explain-away-stats for people: tables by head with the schemes side by side, a
/// histogram of log10 c_j, and the keys with the least and the most attention. Plain ASCII frames,
/// at most about 100 columns wide for two schemes.
std::string column_report(const ColumnStatistics& statistics, const ColumnSummaryOptions& options,
                          const ColumnSummaries& summaries);

/// The `result` of the JSON report (tools/README.md).
nlohmann::ordered_json column_json(const ColumnStatistics& statistics,
                                   const ColumnSummaryOptions& options,
                                   const ColumnSummaries& summaries);

}  // namespace attn::tools
