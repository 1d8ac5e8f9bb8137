#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "tensor/shape.hpp"

namespace attn::tools {

/// A value in a table: nothing (unknown), text, a whole number, a number, or true or false.
using Cell = std::variant<std::monostate, std::string, Index, double, bool>;

/// A column of a table.
struct TableColumn {
  std::string name;     ///< lower case, without spaces; scripts rely on it
  bool in_text = true;  ///< whether text() shows it; tsv() and csv() show all columns
};

/// The figures of a report as rows and named columns. Every column holds one quantity.
class Table {
 public:
  explicit Table(std::vector<TableColumn> columns);

  /// Adds a row with a cell for every column, or throws std::logic_error.
  void add(std::vector<Cell> row);

  const std::vector<TableColumn>& columns() const { return columns_; }
  std::size_t rows() const { return rows_.size(); }

  /// Throws Error(usage), listing the columns, unless sort(by) is possible.
  void require_column(const std::string& by) const;

  /// Sorts by a column, keeping the order of equal rows: numbers from the largest, text and truth
  /// values from the first; "-NAME" reverses this. Cells without a number, or empty, come last. The
  /// column is shown by text() from then on. Throws as require_column.
  void sort(const std::string& by);

  /// Removes all rows but the first `count`.
  void keep_first(Index count);

  /// Lines of values separated by tabs, with a header line. Numbers can be read back exactly;
  /// unknown and non-finite numbers are empty. In names, tabs, line breaks and backslashes are
  /// written as \t, \n, \r and \\, and other bytes that do not print like \x1b.
  std::string tsv() const;

  /// The same separated by commas, as in RFC 4180: lines end in CRLF, and values with a comma or a
  /// quote are quoted.
  std::string csv() const;

  /// Aligned for people, numbers with three digits, without columns in which every cell is empty.
  std::string text() const;

 private:
  std::size_t column(const std::string& by) const;

  std::vector<TableColumn> columns_;
  std::vector<std::vector<Cell>> rows_;
};

/// A cell that is empty without a value.
template <class Value>
Cell cell(const std::optional<Value>& value) {
  return value ? Cell(*value) : Cell();
}

}  // namespace attn::tools
