#pragma once

#include <limits>
#include <optional>

#include <nlohmann/json.hpp>

/// Values that may be missing, which are null in JSON.
namespace attn::tools {

template <class Value>
nlohmann::ordered_json or_null(const std::optional<Value>& value) {
  return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json(nullptr);
}

template <class Value>
std::optional<Value> optional_of(const nlohmann::ordered_json& json) {
  return json.is_null() ? std::nullopt : std::optional(json.get<Value>());
}

/// JSON has no numbers that are not finite: null is NaN.
inline double number_or_nan(const nlohmann::ordered_json& json) {
  return json.is_null() ? std::numeric_limits<double>::quiet_NaN() : json.get<double>();
}

}  // namespace attn::tools
