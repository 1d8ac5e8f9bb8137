#pragma once

#include <optional>

#include <nlohmann/json.hpp>

#include "attnkit/stopping.hpp"
#include "common/shards/checked_notes.hpp"

/// Values that may be missing, which are null in JSON.
namespace attn::tools {

template <class Value>
nlohmann::ordered_json or_null(const std::optional<Value>& value) {
  return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json(nullptr);
}

inline std::optional<Index> count_or_none(const CheckedJson& json) {
  return json.is_null() ? std::nullopt : std::optional(json.count());
}

inline std::optional<double> number_or_none(const CheckedJson& json) {
  return json.is_null() ? std::nullopt : std::optional(json.number());
}

/// The convergence of an iteration.
inline nlohmann::ordered_json convergence_json(const std::optional<Convergence>& convergence) {
  if (!convergence) return nullptr;
  return {{"rate", convergence->rate}, {"predicted", or_null(convergence->predicted_iterations)}};
}

inline std::optional<Convergence> convergence_of(const CheckedJson& json) {
  if (json.is_null()) return std::nullopt;
  return Convergence{json.at("rate").number_or_nan(), count_or_none(json.at("predicted"))};
}

}  // namespace attn::tools
