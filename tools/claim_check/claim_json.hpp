#pragma once

#include <cmath>
#include <optional>

#include <nlohmann/json.hpp>

namespace attn::tools {

using Json = nlohmann::ordered_json;

/// Null for a number that is absent or not finite.
inline Json json_number(std::optional<double> value) {
  return value && std::isfinite(*value) ? Json(*value) : Json();
}

}  // namespace attn::tools
