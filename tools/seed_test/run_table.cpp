#include "seed_test/run_table.hpp"

#include <algorithm>
#include <cctype>
#include <optional>
#include <set>
#include <sstream>

#include <fmt/format.h>

#include "attnkit/error.hpp"
#include "cli/values.hpp"
#include "cli/words.hpp"
#include "common/frame/text_input.hpp"

namespace attn::tools {
namespace {

using Json = nlohmann::ordered_json;

// The cells of a line, or nothing if a quote does not end.
std::optional<std::vector<std::string>> cells_of(const std::string& line, char separator) {
  std::vector<std::string> cells(1);
  bool quoted = false;
  for (std::size_t n = 0; n < line.size(); ++n) {
    const char c = line[n];
    if (quoted && c == '"' && n + 1 < line.size() && line[n + 1] == '"') {
      cells.back() += line[++n];
    } else if (c == '"' && (quoted || cells.back().empty())) {
      quoted = !quoted;
    } else if (c == separator && !quoted) {
      cells.emplace_back();
    } else {
      cells.back() += c;
    }
  }
  if (quoted) return std::nullopt;
  return cells;
}

std::string trimmed(const std::string& text) {
  const auto first = text.find_first_not_of(" \t\r");
  if (first == std::string::npos) return "";
  return text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

Json value_of(const std::string& cell) {
  if (const auto integer = cli::to_integer(cell)) return *integer;
  if (const auto number = cli::to_number(cell)) return *number;
  return cell;
}

}  // namespace

std::size_t RunTable::column(const std::string& name) const {
  const auto found = std::find(columns.begin(), columns.end(), name);
  if (found != columns.end()) return static_cast<std::size_t>(found - columns.begin());
  throw Error(Failure::input, fmt::format("{}: there is no column {}", file, name),
              fmt::format("it has {}", fmt::join(columns, ", ")));
}

Json RunTable::object(const Row& row) const {
  Json object = Json::object();
  for (std::size_t n = 0; n < columns.size(); ++n) {
    if (!row.cells[n].empty()) object[columns[n]] = value_of(row.cells[n]);
  }
  return object;
}

RunTable read_run_table(const std::string& file) {
  RunTable table;
  table.file = file;
  std::istringstream lines(read_text(file, most_bytes_of_log, "a table of runs"));
  Index number = 0;
  char separator = ',';
  for (std::string line; std::getline(lines, line);) {
    ++number;
    if (number == 1 && line.starts_with("\xEF\xBB\xBF")) line.erase(0, 3);
    if (trimmed(line).empty()) continue;
    if (table.columns.empty() && line.find('\t') != std::string::npos) separator = '\t';
    auto cells = cells_of(line, separator);
    if (!cells) {
      throw Error(Failure::input, fmt::format("{}: line {}: a quote does not end", file, number));
    }
    for (std::string& cell : *cells) cell = trimmed(cell);
    if (table.columns.empty()) {
      table.columns = *cells;
      continue;
    }
    if (cells->size() != table.columns.size()) {
      throw Error(Failure::input,
                  fmt::format("{}: line {} has {}, the header has {}", file, number,
                              cli::counted(cells->size(), "cell"), table.columns.size()),
                  "expected a header line, and tabs or commas between cells");
    }
    table.rows.push_back({number, *std::move(cells)});
  }
  const std::set<std::string> names(table.columns.begin(), table.columns.end());
  if (names.size() < table.columns.size()) {
    throw Error(Failure::input, file + ": two columns of the header have one name");
  }
  if (table.rows.empty()) {
    throw Error(Failure::input,
                fmt::format("{} {}", file, names.empty() ? "is empty" : "has a header only"));
  }
  return table;
}

bool is_run_table(const std::string& file) {
  std::string ending = file.substr(file.size() - std::min<std::size_t>(file.size(), 4));
  std::transform(ending.begin(), ending.end(), ending.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return ending == ".csv" || ending == ".tsv";
}

}  // namespace attn::tools
