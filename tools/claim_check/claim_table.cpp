#include "claim_check/claim_table.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "attnkit/error.hpp"
#include "cli/words.hpp"

namespace attn::tools {

void ClaimTable::refuse(const std::string& key, const std::string& what,
                        const std::string& hint) const {
  const toml::node* node = table_.get(key);
  const std::size_t at = node == nullptr ? line() : node->source().begin.line;
  throw Error(Failure::input, fmt::format("{}:{}: {}: {}", file_, at, key, what), hint);
}

void ClaimTable::require_known(const std::set<std::string>& keys) const {
  for (const auto& [key, node] : table_) {
    const std::string given(key.str());
    if (keys.count(given) > 0) continue;
    const std::string near = cli::nearest(given, {keys.begin(), keys.end()});
    refuse(given, "no such key", near.empty() ? "" : "did you mean " + near + "?");
  }
}

bool ClaimTable::is_empty_list(const std::string& key) const {
  const toml::array* array = table_[key].as_array();
  return array != nullptr && array->empty();
}

std::optional<std::string> ClaimTable::text(const std::string& key) const {
  auto value = get<std::string>(key, "a text");
  if (value && value->find_first_not_of(" \t\r\n") == std::string::npos) refuse(key, "is empty");
  return value;
}

std::string ClaimTable::needed_text(const std::string& key) const {
  auto value = text(key);
  if (!value) refuse(key, "is missing");
  return *value;
}

std::optional<double> ClaimTable::number(const std::string& key) const {
  const auto value = get<double>(key, "a number");
  if (value && std::isnan(*value)) refuse(key, "is nan, expected a number");
  return value;
}

double ClaimTable::not_negative(const std::string& key) const {
  const double value = number(key).value_or(0);
  if (!(value >= 0 && std::isfinite(value))) refuse(key, "expected a finite number >= 0");
  return value;
}

std::optional<std::size_t> ClaimTable::choice(const std::string& key,
                                              const std::vector<std::string>& names) const {
  const auto word = text(key);
  if (!word) return std::nullopt;
  const auto found = std::find(names.begin(), names.end(), *word);
  if (found == names.end()) {
    refuse(key, fmt::format("is \"{}\", expected one of {}", *word, fmt::join(names, ", ")));
  }
  return static_cast<std::size_t>(found - names.begin());
}

}  // namespace attn::tools
