#pragma once

#include <limits>
#include <optional>

#include <nlohmann/json.hpp>

#include "attnkit/stopping.hpp"

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

/// How an iteration converged, or that all did.
inline nlohmann::ordered_json convergence_json(const std::optional<Convergence>& convergence) {
  if (!convergence) return nullptr;
  return {{"rate", convergence->rate}, {"predicted", or_null(convergence->predicted_iterations)}};
}

/// JSON has no numbers that are not finite: null is NaN.
inline double number_or_nan(const nlohmann::ordered_json& json) {
  return json.is_null() ? std::numeric_limits<double>::quiet_NaN() : json.get<double>();
}

inline std::optional<Convergence> convergence_of(const nlohmann::ordered_json& json) {
  if (json.is_null()) return std::nullopt;
  return Convergence{number_or_nan(json.at("rate")), optional_of<Index>(json.at("predicted"))};
}

}  // namespace attn::tools
