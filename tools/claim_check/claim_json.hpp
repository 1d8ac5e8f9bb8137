#pragma once

#include <cmath>
#include <optional>
#include <string>

#include <nlohmann/json.hpp>

namespace attn::tools {

using Json = nlohmann::ordered_json;

/// What is wrong with a JSON text, without the mark of the library that read it:
/// "[json.exception.out_of_range.403] ".
inline std::string json_reason(const Json::exception& error) {
  const std::string text = error.what();
  const std::size_t mark = text.find("] ");
  return mark == std::string::npos ? text : text.substr(mark + 2);
}

/// Null for a number that is absent or not finite.
inline Json json_number(std::optional<double> value) {
  return value && std::isfinite(*value) ? Json(*value) : Json();
}

}  // namespace attn::tools
