#include "common/tables/table.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <type_traits>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "attnkit/error.hpp"
#include "cli/words.hpp"
#include "common/tables/column_text.hpp"

namespace attn::tools {
namespace {

constexpr std::size_t most_characters = 40;  // of a cell of text

bool is_empty(const Cell& cell) {
  if (const auto* text = std::get_if<std::string>(&cell)) return text->empty();
  if (const auto* value = std::get_if<double>(&cell)) return !std::isfinite(*value);
  return std::holds_alternative<std::monostate>(cell);
}

std::optional<double> number_of(const Cell& cell) {
  if (is_empty(cell)) return std::nullopt;
  if (const auto* value = std::get_if<double>(&cell)) return *value;
  if (const auto* count = std::get_if<Index>(&cell)) return static_cast<double>(*count);
  return std::nullopt;
}

// Exact, as programs need it.
std::string plain(const Cell& cell) {
  if (is_empty(cell)) return "";
  if (const auto* text = std::get_if<std::string>(&cell)) return *text;
  if (const auto* count = std::get_if<Index>(&cell)) return std::to_string(*count);
  if (const auto* truth = std::get_if<bool>(&cell)) return *truth ? "true" : "false";
  return fmt::format("{}", std::get<double>(cell));
}

// For people: three digits.
std::string short_form(const Cell& cell) {
  if (is_empty(cell)) return "-";
  if (const auto* value = std::get_if<double>(&cell)) {
    return *value < 0 ? "-" + number(-*value) : number(*value);
  }
  return printable(plain(cell), most_characters);
}

// As a terminal may show it, without loss.
std::string escaped(std::string_view value) {
  std::string text;
  while (!value.empty()) {
    const char c = value.front();
    const std::size_t length = cli::printing_character(value);
    if (c == '\\') {
      text += "\\\\";
    } else if (length > 0) {
      text += value.substr(0, length);
    } else {
      text += c == '\t'   ? "\\t"
              : c == '\n' ? "\\n"
              : c == '\r' ? "\\r"
                          : fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    }
    value.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return text;
}

std::string quoted(const std::string& value) {
  if (value.find_first_of(",\"") == std::string::npos) return value;
  std::string text = "\"";
  for (const char c : value) {
    if (c == '"') text += '"';
    text += c;
  }
  return text + "\"";
}

std::string lines(const std::vector<TableColumn>& columns,
                  const std::vector<std::vector<Cell>>& rows, bool header, char between,
                  const char* end) {
  const auto field = [&](const std::string& value) {
    return between == ',' ? quoted(escaped(value)) : escaped(value);
  };
  std::vector<std::string> fields;
  for (const TableColumn& column : columns) fields.push_back(field(column.name));
  const std::string_view separator(&between, 1);
  std::string text = header ? fmt::format("{}{}", fmt::join(fields, separator), end) : "";
  for (const std::vector<Cell>& row : rows) {
    fields.clear();
    for (const Cell& value : row) fields.push_back(field(plain(value)));
    text += fmt::format("{}{}", fmt::join(fields, separator), end);
  }
  return text;
}

// Numbers from the largest, text and truth values from the first.
bool comes_before(const Cell& a, const Cell& b) {
  const auto x = number_of(a);
  const auto y = number_of(b);
  if (x && y) return *x > *y;
  if (x || y) return x.has_value();
  return plain(a) < plain(b);
}

bool is_reversed(const std::string& by) { return !by.empty() && by.front() == '-'; }

}  // namespace

Table::Table(std::vector<TableColumn> columns) : columns_(std::move(columns)) {}

void Table::add(std::vector<Cell> row) {
  if (row.size() != columns_.size()) {
    throw std::logic_error(
        fmt::format("a row of {} cells for {} columns", row.size(), columns_.size()));
  }
  rows_.push_back(std::move(row));
}

std::size_t Table::column(const std::string& by) const {
  const std::string name = is_reversed(by) ? by.substr(1) : by;
  const auto found = std::find_if(columns_.begin(), columns_.end(),
                                  [&](const TableColumn& column) { return column.name == name; });
  if (found != columns_.end()) return static_cast<std::size_t>(found - columns_.begin());
  std::vector<std::string> names;
  for (const TableColumn& column : columns_) names.push_back(column.name);
  throw Error(Failure::usage,
              fmt::format("--sort is {}, expected one of {}", by, fmt::join(names, ", ")));
}

void Table::require_column(const std::string& by) const { static_cast<void>(column(by)); }

void Table::sort(const std::string& by) {
  const bool reversed = is_reversed(by);
  const std::size_t at = column(by);
  columns_[at].in_text = true;
  std::stable_sort(rows_.begin(), rows_.end(),
                   [&](const std::vector<Cell>& a, const std::vector<Cell>& b) {
                     if (is_empty(a[at]) || is_empty(b[at])) {
                       return !is_empty(a[at]) && is_empty(b[at]);
                     }
                     return reversed ? comes_before(b[at], a[at]) : comes_before(a[at], b[at]);
                   });
}

void Table::keep_first(Index count) {
  const auto kept = static_cast<std::size_t>(count);
  if (rows_.size() > kept) rows_.resize(kept);
}

std::string Table::tsv(bool header) const { return lines(columns_, rows_, header, '\t', "\n"); }

std::string Table::csv(bool header) const { return lines(columns_, rows_, header, ',', "\r\n"); }

std::string Table::text() const {
  std::vector<std::string> rows(rows_.size() + 1);
  bool first = true;
  for (std::size_t at = 0; at < columns_.size(); ++at) {
    const auto empty = [&](const std::vector<Cell>& row) { return is_empty(row[at]); };
    if (!columns_[at].in_text || std::all_of(rows_.begin(), rows_.end(), empty)) continue;
    std::vector<std::string> shown = {columns_[at].name};
    bool numbers = true;
    for (const std::vector<Cell>& row : rows_) {
      shown.push_back(short_form(row[at]));
      numbers = numbers && (is_empty(row[at]) || number_of(row[at]));
    }
    std::size_t width = 0;
    for (const std::string& value : shown) width = std::max(width, characters(value));
    for (std::size_t n = 0; n < shown.size(); ++n) {
      const std::string space(width - characters(shown[n]), ' ');
      rows[n] += (first ? "" : "  ") + (numbers ? space + shown[n] : shown[n] + space);
    }
    first = false;
  }
  std::string text;
  for (std::string& row : rows) {
    row.erase(row.find_last_not_of(' ') + 1);
    text += row + "\n";
  }
  return text;
}

void add_member(const std::string& name, const Cell& cell, nlohmann::ordered_json& json) {
  nlohmann::ordered_json& member = json[name];
  std::visit(
      [&](const auto& value) {
        if constexpr (std::is_same_v<std::decay_t<decltype(value)>, std::monostate>) {
          member = nullptr;
        } else {
          member = value;
        }
      },
      cell);
}

}  // namespace attn::tools
