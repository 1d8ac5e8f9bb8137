#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/command.hpp"
#include "common/frame/section_name.hpp"
#include "common/tables/table.hpp"
#include "reports/column_statistics.hpp"

namespace attn::tools {

/// What --rows makes a row of the table of.
enum class RowsOf { heads, keys, queries };
RowsOf rows_of(const cli::Arguments& arguments);

/// Throws Error(usage) for rows of keys or queries without a table, sorted, or in a sweep.
void require_rows(const cli::Arguments& arguments, bool swept);

/// The columns of a table with a row for each key, or query, of every head under each scheme.
std::vector<TableColumn> line_table_columns(RowsOf rows);

/// The rows of one head under one scheme. `names` has those of the keys. Padding has no rows.
std::vector<std::vector<Cell>> line_table_rows(RowsOf rows, const SectionName& section, Index head,
                                               const ColumnStatistics& names,
                                               const std::string& scheme,
                                               const std::vector<Index>& queries_of_key,
                                               const HeadColumns& columns, const TileRange& range);

/// Bytes of the table's text for `lines` rows.
std::int64_t line_table_bytes(RowsOf rows, Index lines);

/// The columns with their meanings, for the man page.
std::vector<std::pair<std::string, std::string>> line_table_meanings();

}  // namespace attn::tools
