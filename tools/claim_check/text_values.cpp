#include "claim_check/text_values.hpp"

#include <algorithm>
#include <cmath>
#include <sstream>

#include <fmt/format.h>
#include <re2/re2.h>

#include "attnkit/error.hpp"
#include "cli/values.hpp"
#include "cli/words.hpp"
#include "common/frame/text_input.hpp"

namespace attn::tools {
namespace {

constexpr std::size_t most_text = std::size_t{1} << 26;

// Finding all matches in a line may take time quadratic in its length.
constexpr std::size_t longest_line = 4096;

const char* const any_number = R"([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)";

// Errors are not written to standard error, but shown by require_pattern.
RE2::Options quiet() {
  RE2::Options options;
  options.set_log_errors(false);
  return options;
}

[[noreturn]] void refuse(const std::string& file, std::size_t line, const std::string& what) {
  throw Error(Failure::input,
              line == 0 ? file + ": " + what : fmt::format("{}:{}: {}", file, line, what));
}

double number_in(const std::string& text, const std::string& file, std::size_t line) {
  const std::size_t begin = text.find_first_not_of(" \t");
  const std::size_t end = text.find_last_not_of(" \t");
  const std::string word = begin == std::string::npos ? "" : text.substr(begin, end - begin + 1);
  const auto value = cli::to_number(!word.empty() && word[0] == '+' ? word.substr(1) : word);
  if (!value) refuse(file, line, "\"" + cli::one_line(word) + "\", expected a number");
  return *value;
}

struct Line {
  std::size_t number;  // from 1 on
  std::string text;
};

std::vector<Line> lines_of(const std::string& text) {
  std::vector<Line> lines;
  std::istringstream stream(text);
  for (Line line = {0, ""}; std::getline(stream, line.text);) {
    if (line.text.ends_with('\r')) line.text.pop_back();
    ++line.number;
    lines.push_back(line);
  }
  return lines;
}

// The cells of a line; those between commas may be quoted (RFC 4180).
std::vector<std::string> cells_of(const std::string& line, char separator) {
  std::vector<std::string> cells;
  if (separator == ' ') {
    std::istringstream words(line);
    for (std::string word; words >> word;) cells.push_back(word);
    return cells;
  }
  cells.emplace_back();
  bool quoted = false;
  for (const char c : line) {
    if (c == '"' && separator == ',') {
      quoted = !quoted;
    } else if (c == separator && !quoted) {
      cells.emplace_back();
    } else {
      cells.back() += c;
    }
  }
  return cells;
}

char separator_of(const std::string& line) {
  for (const char c : {'\t', ','}) {
    if (line.find(c) != std::string::npos) return c;
  }
  return ' ';
}

std::size_t column_of(const std::vector<std::string>& names, const std::string& column,
                      const std::string& file) {
  const auto named = std::find(names.begin(), names.end(), column);
  if (named != names.end()) return static_cast<std::size_t>(named - names.begin());
  const auto number = cli::to_integer(column);
  if (number && *number >= 1 && *number <= static_cast<Index>(names.size())) {
    return static_cast<std::size_t>(*number - 1);
  }
  refuse(file, 1,
         fmt::format("no column {}; there are {}", column,
                     cli::one_line(fmt::format("{}", fmt::join(names, ", ")))));
}

void keep_line(std::vector<Line>& lines, Index wanted, const std::string& file) {
  const auto count = static_cast<Index>(lines.size());
  const Index at = wanted > 0 ? wanted - 1 : count + wanted;
  if (at < 0 || at >= count)
    refuse(file, 0, fmt::format("has {} lines, not line {}", count, wanted));
  lines = {lines[static_cast<std::size_t>(at)]};
}

bool matches(const RE2& pattern, const Line& line, const std::string& file) {
  if (line.text.size() > longest_line) {
    refuse(file, line.number, fmt::format("is longer than {} characters", longest_line));
  }
  return RE2::PartialMatch(line.text, pattern);
}

void add_matches(const RE2& pattern, const Line& line, const std::string& file,
                 std::vector<double>& numbers) {
  if (!matches(pattern, line, file)) return;
  const int groups = std::min(pattern.NumberOfCapturingGroups(), 1);
  re2::StringPiece found[2];
  for (std::size_t at = 0;
       pattern.Match(line.text, at, line.text.size(), RE2::UNANCHORED, found, groups + 1);) {
    numbers.push_back(number_in(found[groups].as_string(), file, line.number));
    // Not empty, or there would be no number.
    at = static_cast<std::size_t>(found[0].end() - line.text.data());
  }
}

std::vector<double> of_table(const TextPlace& place, std::vector<Line> lines,
                             const std::string& file) {
  if (lines.empty()) refuse(file, 0, "is empty, expected a table");
  const std::string header = lines.front().text;
  const char separator = separator_of(header);
  const std::size_t column = column_of(cells_of(header, separator), *place.column, file);
  lines.erase(lines.begin());
  std::erase_if(lines, [](const Line& line) { return line.text.empty(); });
  if (place.pattern) {
    const RE2 pattern(*place.pattern, quiet());
    std::erase_if(lines, [&](const Line& line) { return !matches(pattern, line, file); });
  }
  if (place.line) keep_line(lines, *place.line, file);
  std::vector<double> numbers;
  for (const Line& line : lines) {
    const std::vector<std::string> cells = cells_of(line.text, separator);
    if (column >= cells.size()) refuse(file, line.number, "has no such column");
    numbers.push_back(number_in(cells[column], file, line.number));
  }
  return numbers;
}

std::vector<double> of_lines(const TextPlace& place, std::vector<Line> lines,
                             const std::string& file) {
  if (place.line) keep_line(lines, *place.line, file);
  const RE2 pattern(place.pattern.value_or(any_number), quiet());
  std::vector<double> numbers;
  for (const Line& line : lines) add_matches(pattern, line, file, numbers);
  return numbers;
}

}  // namespace

void require_pattern(const TextPlace& place) {
  if (!place.pattern) return;
  const RE2 pattern(*place.pattern, quiet());
  if (pattern.ok()) return;
  throw Error(Failure::input, "is no regular expression: " + cli::one_line(pattern.error()));
}

Values text_values(const TextPlace& place, const std::string& file, const std::string& folder) {
  require_regular(folder + "/" + file, file);
  const std::string text = read_text(folder + "/" + file, most_text, "text with numbers");
  Values values;
  values.numbers =
      place.column ? of_table(place, lines_of(text), file) : of_lines(place, lines_of(text), file);
  if (values.numbers.empty()) refuse(file, 0, "no number is there");
  return values;
}

}  // namespace attn::tools
