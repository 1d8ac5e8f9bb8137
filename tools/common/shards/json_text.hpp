#pragma once

#include <string>

#include <nlohmann/json.hpp>

namespace attn::tools {

/// JSON on one line. Names of files and options may hold any bytes: those that are not UTF-8 are
/// replaced.
inline std::string json_text(const nlohmann::ordered_json& json) {
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace attn::tools
