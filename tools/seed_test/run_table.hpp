#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "tensor/shape.hpp"

namespace attn::tools {

/// A log or table that is larger is refused.
inline constexpr std::size_t most_bytes_of_log = std::size_t{4} << 30;

/// A CSV or TSV file with a header line: tabs separate its cells if the header has a tab, else
/// commas. A cell in double quotes may have either, and "" for a quote, but no line break. Blank
/// lines are skipped.
struct RunTable {
  struct Row {
    Index line;  ///< in the file, from 1
    std::vector<std::string> cells;
  };

  std::string file;
  std::vector<std::string> columns;
  std::vector<Row> rows;

  /// The place of a column. Throws Error(input) that names the columns if there is none.
  std::size_t column(const std::string& name) const;

  /// A row as an object: integers and finite numbers are numbers, other cells are texts, and empty
  /// cells are left out.
  nlohmann::ordered_json object(const Row& row) const;
};

/// Throws Error(input) for a file that cannot be read or has no rows, for two columns of one name,
/// and for a row (named by its line) that has a quote without an end or more or fewer cells than
/// the header.
RunTable read_run_table(const std::string& file);

/// Whether the name of a file ends in .csv or .tsv, in small or capital letters.
bool is_run_table(const std::string& file);

}  // namespace attn::tools
