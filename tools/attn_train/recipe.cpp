#include "attn_train/recipe.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <optional>
#include <stdexcept>

#include <fmt/format.h>

#include "cli/words.hpp"
#include "common/frame/toml_file.hpp"

namespace attn::tools {
namespace {

using Json = nlohmann::ordered_json;
using Kind = RecipeKey::Kind;

const RecipeKey* find_key(const std::string& name) {
  const auto found = std::find_if(recipe_keys().begin(), recipe_keys().end(),
                                  [&](const RecipeKey& key) { return key.name == name; });
  return found == recipe_keys().end() ? nullptr : &*found;
}

std::string last_part(const std::string& name) { return name.substr(name.rfind('.') + 1); }

std::string hint_for(const std::string& name) {
  std::vector<std::string> names;
  std::vector<std::string> alike;  // as seed is for run.seed
  for (const RecipeKey& key : recipe_keys()) {
    names.push_back(key.name);
    if (last_part(key.name) == last_part(name)) alike.push_back(key.name);
  }
  const std::string near = alike.size() == 1 ? alike.front() : cli::nearest(name, names);
  return near.empty() ? "attn-train --help=recipe lists the keys" : "did you mean " + near + "?";
}

bool in_range(const RecipeKey& key, double x) {
  return std::isfinite(x) && (key.low_open ? x > key.low : x >= key.low) &&
         (key.high_open ? x < key.high : x <= key.high);
}

bool is_word_of(const RecipeKey& key, const Json& word) {
  return word.is_string() &&
         std::count(key.words.begin(), key.words.end(), word.get<std::string>()) > 0;
}

// Whether a value is of the key's type and in its range.
bool accepts(const RecipeKey& key, const Json& value) {
  const auto all = [&](const auto& one) {
    return value.is_array() && std::all_of(value.begin(), value.end(), one);
  };
  switch (key.kind) {
    case Kind::file:
      return value.is_string() && value != "";
    case Kind::choice:
      return is_word_of(key, value);
    case Kind::choices:
      return all([&](const Json& one) {
        return is_word_of(key, one) && std::count(value.begin(), value.end(), one) == 1;
      });
    case Kind::integer:
      return value.is_number_integer() && in_range(key, value.get<double>());
    case Kind::number:
      return value.is_number() && in_range(key, value.get<double>());
    case Kind::numbers:
      return all([&](const Json& one) { return one.is_number() && in_range(key, one); });
    case Kind::flag:
      return value.is_boolean();
  }
  return false;
}

// Integers and numbers are stored alike however they were written, so that 1 and 1.0 are the same
// recipe.
Json normal(const RecipeKey& key, const Json& value) {
  if (key.kind == Kind::number) return value.get<double>();
  if (key.kind == Kind::numbers) return value.get<std::vector<double>>();
  return value;
}

// Null for a date, a time or a table.
Json json_of(const toml::node& node) {
  if (const auto text = node.value_exact<std::string>()) return *text;
  if (const auto flag = node.value_exact<bool>()) return *flag;
  if (const auto integer = node.value_exact<std::int64_t>()) return *integer;
  if (const auto number = node.value_exact<double>()) return *number;
  if (const toml::array* const array = node.as_array()) {
    Json list = Json::array();
    for (const toml::node& one : *array) list.push_back(json_of(one));
    return list;
  }
  return nullptr;
}

// A number as JSON reads it; null for other text.
Json number_in(const std::string& text) {
  Json read = Json::parse(text, nullptr, false);
  return read.is_number() ? read : Json(nullptr);
}

std::vector<std::string> parts_of(const std::string& text) {
  std::vector<std::string> parts;
  for (std::size_t from = 0; from <= text.size();) {
    const std::size_t comma = std::min(text.find(',', from), text.size());
    parts.push_back(text.substr(from, comma - from));
    from = comma + 1;
  }
  return parts;
}

// The value of the text of a setting.
Json json_of(const RecipeKey& key, const std::string& text) {
  Json list = Json::array();
  switch (key.kind) {
    case Kind::file:
    case Kind::choice:
      return text;
    case Kind::integer:
    case Kind::number:
      return number_in(text);
    case Kind::flag:
      return text == "true" ? Json(true) : text == "false" ? Json(false) : Json(nullptr);
    case Kind::choices:
      if (text.empty()) return list;
      for (const std::string& part : parts_of(text)) list.push_back(part);
      return list;
    case Kind::numbers:
      for (const std::string& part : parts_of(text)) list.push_back(number_in(part));
      return list;
  }
  return nullptr;
}

std::string shown(const Json& value) {
  if (value.is_null()) return "is of another type";
  return "is " + cli::one_line(value.dump(-1, ' ', false, Json::error_handler_t::replace));
}

// Calls body(key with its tables, node) for every value of a table.
template <class Body>
void for_each_value(const toml::table& table, const std::string& prefix, const Body& body) {
  for (const auto& [key, node] : table) {
    const std::string name = prefix + std::string(key.str());
    if (const toml::table* const inner = node.as_table()) {
      for_each_value(*inner, name + ".", body);
    } else {
      body(name, node);
    }
  }
}

}  // namespace

Recipe::Recipe(const std::string& file, const std::vector<std::string>& settings) : file_(file) {
  for (const RecipeKey& key : recipe_keys()) {
    values_[key.name] = key.fallback.is_null() ? key.fallback : normal(key, key.fallback);
  }
  read_file();
  for (const std::string& setting : settings) set(setting);
  choose_model();
  require_fitting();
  resolve();
}

const RecipeKey& Recipe::known(const std::string& name) const {
  const RecipeKey* const key = find_key(name);
  if (key == nullptr) throw refusal(name, "is no key of a recipe", hint_for(name));
  return *key;
}

void Recipe::read_file() {
  const toml::table parsed = parse_toml(file_, "a recipe (attn-train --help=recipe)");
  const std::filesystem::path folder = std::filesystem::path(file_).parent_path();
  for_each_value(parsed, "", [&](const std::string& name, const toml::node& node) {
    lines_[name] = node.source().begin.line;
    const RecipeKey& key = known(name);
    Json value = json_of(node);
    if (!accepts(key, value)) {
      throw refusal(name, shown(value) + ", expected " + key.expectation());
    }
    if (key.kind == Kind::file) value = (folder / value.get<std::string>()).string();
    values_[name] = normal(key, value);
  });
}

void Recipe::set(const std::string& setting) {
  const std::size_t equals = setting.find('=');
  const std::string name = setting.substr(0, equals);
  const bool again = !set_.insert(name).second;
  const RecipeKey& key = known(name);
  if (equals == std::string::npos) throw refusal(name, "has no value, expected KEY=VALUE");
  if (again) throw refusal(name, "is given twice");
  const std::string text = setting.substr(equals + 1);
  const Json value = json_of(key, text);
  if (!accepts(key, value)) {
    throw refusal(name, "is " + text + ", expected " + key.expectation());
  }
  values_[name] = normal(key, value);
}

// Setting run.steps or run.epochs also replaces the other one in the file. Keys whose default
// depends on other keys get their values.
void Recipe::resolve() {
  const auto keep = [&](const std::string& kept, const std::string& other) {
    if (!is_set(kept) || is_set(other)) return;
    lines_.erase(other);
    values_[other] = find_key(other)->fallback;
  };
  keep("run.steps", "run.epochs");
  keep("run.epochs", "run.steps");
  const auto derive = [&](const std::string& key, const Json& value) {
    if (values_[key].is_null()) values_[key] = value;
  };
  derive("model.encoder-layers", values_["model.layers"]);
  derive("optimizer.epsilon", text("optimizer.rule") == "lamb" ? 1e-6 : 1e-8);
  derive("optimizer.start-of", values_["optimizer.paths"]);
}

namespace {

bool is_among(const std::string& value, const std::vector<std::string>& fitting) {
  return fitting.empty() || std::count(fitting.begin(), fitting.end(), value) > 0;
}

}  // namespace

void Recipe::choose_model() {
  const std::string objective = text("objective.kind");
  const std::vector<std::string>& models = models_of(objective);
  Json& kind = values_["model.kind"];
  if (kind.is_null()) kind = models.front();
  const std::string model = kind;
  if (is_among(model, models)) return;
  if (is_set("objective.kind") && !is_set("model.kind")) {
    throw refusal("objective.kind", fmt::format("is {}, which does not go with model.kind = \"{}\"",
                                                objective, model));
  }
  throw refusal("model.kind",
                fmt::format("is {}, which does not go with objective.kind = \"{}\", only {}", model,
                            objective, fmt::join(models, ", ")));
}

// Whether a key has an effect for the objective and the model.
bool Recipe::is_fitting(const RecipeKey& key) const {
  return is_among(text("objective.kind"), key.objectives) &&
         is_among(text("model.kind"), key.models);
}

void Recipe::require_fitting() const {
  for (const RecipeKey& key : recipe_keys()) {
    if (!given(key.name) || is_fitting(key)) continue;
    const bool by_objective = !is_among(text("objective.kind"), key.objectives);
    const std::string other = by_objective ? "objective.kind" : "model.kind";
    throw refusal(key.name,
                  fmt::format("does not go with {} = \"{}\", only with {}", other, text(other),
                              fmt::join(by_objective ? key.objectives : key.models, ", ")));
  }
}

Json Recipe::values() const {
  Json values;
  for (const RecipeKey& key : recipe_keys()) {
    if (is_fitting(key)) values[key.name] = values_.at(key.name);
  }
  return values;
}

bool Recipe::given(const std::string& key) const { return lines_.count(key) > 0 || is_set(key); }

const Json& Recipe::value(const std::string& key) const {
  const Json& found = values_.at(key);
  if (found.is_null()) throw std::logic_error("recipe: " + key + " has no value");
  return found;
}

Error Recipe::refusal(const std::string& key, const std::string& what,
                      const std::string& hint) const {
  if (is_set(key)) {
    return {Failure::usage, fmt::format("--set {} {}", cli::one_line(key), what), hint};
  }
  const auto line = lines_.find(key);
  const std::string place =
      line == lines_.end() ? file_ : fmt::format("{}:{}", file_, line->second);
  return {Failure::input, fmt::format("{}: {} {}", place, cli::one_line(key), what), hint};
}

}  // namespace attn::tools
