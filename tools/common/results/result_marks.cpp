#include "common/results/result_marks.hpp"

#include "common/shards/json_text.hpp"

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <nlohmann/json.hpp>

namespace attn::tools {
namespace {

using Json = nlohmann::ordered_json;

Json json_of(const Setting& setting) {
  return std::visit(
      [](const auto& value) -> Json {
        using Value = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<Value, std::monostate>) {
          return nullptr;
        } else {
          return value;
        }
      },
      setting);
}

// Marks come from files that anybody may have written. They are bounded, since nlohmann's library
// recurses over nested values. Null if the text is not a mark.
Json parse_mark(const std::string& text) {
  constexpr std::size_t longest = 65536;
  if (text.size() > longest) return {};
  bool too_deep = false;
  const auto is_shallow = [&](int depth, Json::parse_event_t event, const Json&) {
    const bool opens =
        event == Json::parse_event_t::object_start || event == Json::parse_event_t::array_start;
    // Two levels: the mark, and in it "from" and "with".
    if (opens && depth > 1) too_deep = true;
    return !too_deep;
  };
  Json mark = Json::parse(text, is_shallow, false);
  if (too_deep || !mark.is_object()) return {};
  return mark;
}

// Null if the mark has no such member.
const Json* member(const Json& mark, const char* name) {
  if (!mark.is_object()) return nullptr;
  const auto found = mark.find(name);
  return found == mark.end() ? nullptr : &*found;
}

std::string tool_of(const Json& mark) {
  const Json* const tool = member(mark, "tool");
  return tool != nullptr && tool->is_string() ? tool->get<std::string>() : "";
}

Setting setting_in(const Json& json) {
  if (json.is_string()) return json.get<std::string>();
  if (json.is_number_integer()) return json.get<std::int64_t>();
  if (json.is_number()) return json.get<double>();
  return {};
}

}  // namespace

Settings settings_for(const ResultFamily& family, const std::string& name, Settings settings) {
  for (const auto& [attribute, scheme] : family.of_scheme) {
    if (name.rfind(scheme, 0) != 0 && name.rfind("stored", 0) != 0) settings.erase(attribute);
  }
  return settings;
}

std::string mark_text(const Held& result, const std::string& name) {
  Json with = Json::object();
  for (const auto& [setting, value] : settings_for(*result.family, name, result.with)) {
    if (!std::holds_alternative<std::monostate>(value)) with[setting] = json_of(value);
  }
  const Json mark = {
      {"name", name}, {"tool", result.family->tool}, {"from", result.from}, {"with", with}};
  return json_text(mark);
}

std::optional<Held> read_mark(const std::string& text, const std::string& name) {
  const Json mark = parse_mark(text);
  const Json* const named = member(mark, "name");
  const Json* const from = member(mark, "from");
  const Json* const with = member(mark, "with");
  if (named == nullptr || *named != name) return std::nullopt;
  if (from == nullptr || !from->is_object() || with == nullptr || !with->is_object()) {
    return std::nullopt;
  }
  Held held;
  held.marked = true;
  held.family = result_family(tool_of(mark));
  if (held.family == nullptr || !held.family->has(name)) return std::nullopt;
  for (const auto& [input, stored] : from->items()) {
    if (stored.is_string()) held.from[input] = stored.get<std::string>();
  }
  for (const auto& [setting, value] : with->items()) held.with[setting] = setting_in(value);
  return held;
}

std::string tool_of_mark(const std::string& text) { return tool_of(parse_mark(text)); }

}  // namespace attn::tools
