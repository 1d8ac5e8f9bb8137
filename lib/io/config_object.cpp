#include "io/config_object.hpp"

#include <cmath>

#include "attnkit/error.hpp"

namespace attn::io {

void ConfigPlace::refuse(const std::string& what) const {
  throw Error(Failure::input, path + " has " + what, hint);
}

ConfigObject::ConfigObject(const std::string& text, ConfigPlace place) : place_(std::move(place)) {
  constexpr int most_depth = 64;
  const auto refuse = [&](const std::string& why) {
    throw Error(Failure::input, place_.path + " is " + why, place_.hint);
  };
  const auto shallow = [&](int depth, Json::parse_event_t, const Json&) {
    if (depth > most_depth) refuse("nested too deeply");
    return true;
  };
  object_ = Json::parse(text, shallow, false);
  if (!object_.is_object()) refuse("not a JSON object");
}

const ConfigObject::Json* ConfigObject::find(const char* key) const {
  const auto found = object_.find(key);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

std::optional<ConfigObject> ConfigObject::object(const char* key) const {
  const Json* const found = find(key);
  if (found == nullptr || !found->is_object()) return std::nullopt;
  return ConfigObject(*found, place_);
}

bool ConfigObject::is_set(const char* key) const {
  const Json* const found = find(key);
  return found != nullptr && *found != false && *found != 0 && *found != "";
}

std::string ConfigObject::text(const char* key) const {
  const Json* const found = find(key);
  return found != nullptr && found->is_string() ? found->get<std::string>() : std::string();
}

std::optional<Index> ConfigObject::whole(const char* key, Index least, Index most) const {
  const Json* const found = find(key);
  if (found == nullptr) return std::nullopt;
  if (!found->is_number_integer() || *found < least || *found > most) {
    place_.refuse("a " + std::string(key) + " that is not an integer in [" + std::to_string(least) +
                  ", " + std::to_string(most) + "]");
  }
  return found->get<Index>();
}

std::optional<double> ConfigObject::number(const char* key, bool zero) const {
  const Json* const found = find(key);
  if (found == nullptr) return std::nullopt;
  const double value = found->is_number() ? found->get<double>() : -1;
  if (std::isfinite(value) && (value > 0 || (zero && value == 0))) return value;
  place_.refuse("a " + std::string(key) + " that is not a positive number");
}

}  // namespace attn::io
