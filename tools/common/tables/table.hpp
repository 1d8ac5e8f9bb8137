#pragma once

#include <algorithm>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <variant>
#include <vector>

#include <nlohmann/json_fwd.hpp>

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

  /// Removes all rows.
  void clear() { rows_.clear(); }

  /// Lines of values separated by tabs, with a header line. Numbers can be read back exactly;
  /// unknown and non-finite numbers are empty. In names, tabs, line breaks and backslashes are
  /// written as \t, \n, \r and \\, and other bytes that do not print like \x1b.
  std::string tsv(bool header = true) const;

  /// The same separated by commas, as in RFC 4180: lines end in CRLF, and values with a comma or a
  /// quote are quoted.
  std::string csv(bool header = true) const;

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

/// A figure of what a row describes, described once: a column of the table, and a member of the
/// JSON report where that has the figure under the same name.
template <class Row>
struct Figure {
  std::string name;  ///< lower case, without spaces; scripts rely on it
  std::function<Cell(const Row&)> value;
  bool in_text = true;                               ///< as in TableColumn
  std::function<std::string(const Row&)> text = {};  ///< in a report's own table; none: not there
};

/// The figures of a row, in the order of the columns.
template <class Row>
using Figures = std::vector<Figure<Row>>;

/// The columns of figures, after those in `columns`.
template <class Row>
std::vector<TableColumn> columns_of(const Figures<Row>& figures,
                                    std::vector<TableColumn> columns = {}) {
  for (const Figure<Row>& figure : figures) columns.push_back({figure.name, figure.in_text});
  return columns;
}

/// The cells of a row, after those in `cells`.
template <class Row>
std::vector<Cell> cells_of(const Figures<Row>& figures, const Row& row,
                           std::vector<Cell> cells = {}) {
  for (const Figure<Row>& figure : figures) cells.push_back(figure.value(row));
  return cells;
}

/// The headings and the texts of the figures that have one. A heading has blanks for '_'.
template <class Row>
std::vector<std::string> headings_of(const Figures<Row>& figures) {
  std::vector<std::string> headings;
  for (const Figure<Row>& figure : figures) {
    if (!figure.text) continue;
    headings.push_back(figure.name);
    std::replace(headings.back().begin(), headings.back().end(), '_', ' ');
  }
  return headings;
}

template <class Row>
std::vector<std::string> texts_of(const Figures<Row>& figures, const Row& row) {
  std::vector<std::string> texts;
  for (const Figure<Row>& figure : figures) {
    if (figure.text) texts.push_back(figure.text(row));
  }
  return texts;
}

/// Null for an empty cell.
void add_member(const std::string& name, const Cell& cell, nlohmann::ordered_json& json);

/// Adds the figures of these names to a JSON object, in this order. Throws std::logic_error for an
/// unknown name.
template <class Row>
void add_members(const Figures<Row>& figures, const Row& row, const std::vector<std::string>& names,
                 nlohmann::ordered_json& json) {
  for (const std::string& name : names) {
    const auto found = std::find_if(figures.begin(), figures.end(),
                                    [&](const Figure<Row>& figure) { return figure.name == name; });
    if (found == figures.end()) throw std::logic_error("no figure is called " + name);
    add_member(name, found->value(row), json);
  }
}

}  // namespace attn::tools
