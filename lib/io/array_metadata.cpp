#include "io/array_metadata.hpp"

#include <cmath>
#include <optional>

#include <nlohmann/json.hpp>

#include "io/history.hpp"

namespace attn::io {
namespace {

using Json = nlohmann::ordered_json;

bool is_kept(const std::vector<double>& values) {
  for (const double value : values) {
    if (!std::isfinite(value)) return false;
  }
  return true;
}
bool is_kept(const std::vector<std::int64_t>&) { return true; }
bool is_kept(const std::vector<std::string>&) { return true; }

/// Absent if the text cannot hold such an attribute.
std::optional<Json> value_of(const AttributeValue& attribute) {
  if (attribute.shape.size() > 1) return std::nullopt;
  return std::visit(
      [&](const auto& values) -> std::optional<Json> {
        if constexpr (std::is_same_v<std::decay_t<decltype(values)>, AttributeValue::Described>) {
          return std::nullopt;
        } else {
          if (!is_kept(values)) return std::nullopt;
          if (attribute.shape.empty()) return Json(values.at(0));
          return Json(values);
        }
      },
      attribute.value);
}

/// The attributes in which HDF5 stores how datasets refer to each other.
bool is_reference(const std::string& name) {
  return name == "DIMENSION_LIST" || name == "REFERENCE_LIST";
}

Json values_of(const std::vector<AttributeValue>& attributes, const std::string& before,
               std::vector<std::string>& left_out) {
  Json all = Json::object();
  for (const AttributeValue& attribute : attributes) {
    if (is_reference(attribute.name)) continue;
    if (std::optional<Json> value = value_of(attribute)) {
      all[attribute.name] = std::move(*value);
    } else {
      left_out.push_back(before + attribute.name);
    }
  }
  return all;
}

}  // namespace

std::string metadata_text(const std::vector<AttributeValue>& root, const std::vector<Item>& items,
                          const std::vector<TextDataset>& texts,
                          std::vector<std::string>& left_out) {
  Json groups = Json::object();
  Json datasets = Json::object();
  for (const Item& item : items) {
    Json values = values_of(item.attributes, item.path + ": ", left_out);
    if (item.is_group) {
      groups[item.path] = std::move(values);
    } else if (!values.empty()) {
      datasets[item.path] = std::move(values);
    }
  }
  Json strings = Json::object();
  for (const TextDataset& text : texts) {
    strings[text.path] = {{"shape", text.shape}, {"values", text.values}};
  }
  Json all = {{"schema", "attnkit/1"}};
  const auto add = [&](const char* name, Json&& part) {
    if (!part.empty()) all[name] = std::move(part);
  };
  add("attributes", values_of(root, "", left_out));
  add("groups", std::move(groups));
  add("datasets", std::move(datasets));
  add("strings", std::move(strings));
  if (all.size() == 1) return {};
  return all.dump(-1, ' ', false, Json::error_handler_t::replace);
}

void put_history(std::vector<AttributeValue>& root, const std::string& command_line,
                 const std::string& version) {
  std::string text = history_line(command_line, version);
  for (AttributeValue& attribute : root) {
    if (attribute.name != "history") continue;
    const auto* const before = std::get_if<std::vector<std::string>>(&attribute.value);
    if (before != nullptr && !before->at(0).empty()) text += "\n" + before->at(0);
    attribute.shape = {};
    attribute.value = std::vector<std::string>{text};
    return;
  }
  root.push_back({"history", {}, std::vector<std::string>{text}});
}

}  // namespace attn::io
