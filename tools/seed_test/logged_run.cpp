#include "seed_test/logged_run.hpp"

#include <algorithm>
#include <cmath>
#include <set>
#include <sstream>
#include <string_view>

#include <fmt/format.h>

#include "attnkit/error.hpp"
#include "cli/values.hpp"
#include "common/frame/text_input.hpp"

namespace attn::tools {
namespace {

using Json = nlohmann::ordered_json;

// The value of this name, or at a name with dots; or nothing.
const Json* find(const Json& line, const std::string& name) {
  if (line.contains(name)) return &line[name];
  const Json* at = &line;
  for (const std::string& part : cli::split(name, '.')) {
    if (!at->is_object() || !at->contains(part)) return nullptr;
    at = &(*at)[part];
  }
  return at;
}

std::optional<Index> whole_number(const Json& line, const std::string& name) {
  const Json* const value = find(line, name);
  if (value == nullptr || !value->is_number_integer()) return std::nullopt;
  return value->get<Index>();
}

// The names of all numbers in an object, with dots between the names of nested objects.
void gather_names(const Json& object, const std::string& before, std::set<std::string>& names) {
  for (const auto& [name, value] : object.items()) {
    if (value.is_number()) names.insert(before + name);
    if (value.is_object()) gather_names(value, before + name + ".", names);
  }
}

// What Python writes for a number that is not finite, if it is what keeps a line from being JSON.
std::string word_of_python(const std::string& line) {
  try {
    [[maybe_unused]] const Json json = Json::parse(line);
  } catch (const Json::parse_error& error) {
    // The error counts the bytes up to the one that is wrong.
    const std::size_t at = std::min(std::max<std::size_t>(error.byte, 1) - 1, line.size());
    for (const char* const word : {"NaN", "Infinity"}) {
      if (std::string_view(line).substr(at).starts_with(word)) return word;
    }
  } catch (const Json::exception&) {
    return "";
  }
  return "";
}

}  // namespace

LoggedRun::LoggedRun(const std::string& file) : file_(file), name_(file) {
  if (!is_run_table(file)) {
    read_json(file);
    return;
  }
  const RunTable table = read_run_table(file);
  for (const RunTable::Row& row : table.rows) lines_.push_back({row.line, table.object(row)});
}

LoggedRun::LoggedRun(const RunTable& table, const RunTable::Row& row)
    : file_(table.file),
      name_(fmt::format("{}:{}", table.file, row.line)),
      lines_({{row.line, table.object(row)}}) {}

void LoggedRun::read_json(const std::string& file) {
  std::istringstream lines(read_text(file, most_bytes_of_log, "a log of attn-train"));
  Index number = 0;
  for (std::string line; std::getline(lines, line);) {
    lines_.push_back({++number, Json::parse(line, nullptr, false)});
    if (lines_.back().values.is_object()) continue;
    if (const std::string word = word_of_python(line); !word.empty()) {
      throw Error(Failure::input,
                  fmt::format("{}: line {} has {}, which is no JSON number", file, number, word),
                  "leave out the line, or name another --metric");
    }
    throw Error(Failure::input, fmt::format("{}: line {} is no JSON object", file, number),
                "expected a log that attn-train --log wrote, lines of JSON, or a table whose name "
                "ends in .csv or .tsv");
  }
  if (lines_.empty()) throw Error(Failure::input, file + ": is empty");
  require_finished();
}

void LoggedRun::require_finished() const {
  const Json& first = lines_.front().values;
  const std::optional<Index> steps = whole_number(first, "steps");
  if (!steps || !first.contains("recipe")) return;
  const Index step = whole_number(lines_.back().values, "step").value_or(0);
  if (step >= *steps) return;
  throw Error(Failure::input, fmt::format("{}: the run is at step {} of {}", file_, step, *steps),
              "attn-train with the same recipe and output continues it");
}

std::optional<Index> LoggedRun::seed() const {
  const Json& first = lines_.front().values;
  return whole_number(first, first.contains("recipe") ? "recipe.seed" : "seed");
}

std::string LoggedRun::known_metrics() const {
  std::set<std::string> names;
  for (const Line& line : lines_) {
    if (!line.values.contains("recipe")) gather_names(line.values, "", names);
  }
  return names.empty() ? "" : fmt::format("it has {}", fmt::join(names, ", "));
}

double LoggedRun::value(const std::string& metric, Chosen chosen) const {
  std::optional<double> found;
  for (std::size_t n = lines_.size(); n-- > 0;) {
    const Json* const value = find(lines_[n].values, metric);
    if (value == nullptr) continue;
    if (!value->is_number() || !std::isfinite(value->get<double>())) {
      throw Error(Failure::input, fmt::format("{}: line {}: {} is {}, expected a finite number",
                                              file_, lines_[n].number, metric, value->dump()));
    }
    const double number = value->get<double>();
    if (chosen == Chosen::last) return number;
    if (!found) found = number;
    found = chosen == Chosen::least ? std::min(*found, number) : std::max(*found, number);
  }
  if (found) return *found;
  throw Error(Failure::input, fmt::format("{}: no line has {}", name_, metric), known_metrics());
}

}  // namespace attn::tools
