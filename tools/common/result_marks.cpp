#include "common/result_marks.hpp"

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
  return mark.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::optional<Held> read_mark(const std::string& text, const std::string& name) {
  const Json mark = Json::parse(text, nullptr, false);
  if (!mark.is_object() || mark.value("name", Json()) != name) return std::nullopt;
  const Json tool = mark.value("tool", Json());
  const Json from = mark.value("from", Json());
  const Json with = mark.value("with", Json());
  if (!tool.is_string() || !from.is_array() || !with.is_object()) return std::nullopt;
  Held held;
  held.marked = true;
  held.family = result_family(tool.get<std::string>());
  if (held.family == nullptr || !held.family->has(name)) return std::nullopt;
  for (const Json& input : from) {
    if (input.is_string()) held.from.insert(input.get<std::string>());
  }
  for (const auto& [setting, value] : with.items()) held.with[setting] = setting_in(value);
  return held;
}

}  // namespace attn::tools
