#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <utility>

#include <nlohmann/json.hpp>

#include "tensor/shape.hpp"

namespace attn::io {

/// The file of a ConfigObject, for messages.
struct ConfigPlace {
  std::string path;
  std::string hint = {};  ///< of every error

  /// Throws Error(input) "PATH has WHAT".
  [[noreturn]] void refuse(const std::string& what) const;
};

/// An object of a model's config.json, as Hugging Face's libraries write it. A member that is null
/// counts as absent unless stated otherwise; one of a wrong type is refused.
class ConfigObject {
 public:
  using Json = nlohmann::json;

  static constexpr std::size_t most_bytes = std::size_t{16} << 20;  ///< of a file

  /// The whole file. Throws Error(input) if `text` is not a JSON object or is deeper than 64
  /// levels.
  ConfigObject(const std::string& text, ConfigPlace place);
  /// Another object of the same file.
  ConfigObject(Json object, ConfigPlace place)
      : object_(std::move(object)), place_(std::move(place)) {}

  const ConfigPlace& place() const { return place_; }
  const Json& json() const { return object_; }

  bool contains(const char* key) const { return object_.contains(key); }  ///< null included
  void erase(const char* key) { object_.erase(key); }

  /// Null if it is absent.
  const Json* find(const char* key) const;

  /// The object of that name; absent if there is no object.
  std::optional<ConfigObject> object(const char* key) const;

  /// Whether it is there, and neither false, 0 nor "".
  bool is_set(const char* key) const;

  /// Empty if it is no text.
  std::string text(const char* key) const;

  /// An integer in [least, most].
  std::optional<Index> whole(const char* key, Index least = 1, Index most = 1 << 20) const;

  /// A finite number > 0, or also 0 with `zero`.
  std::optional<double> number(const char* key, bool zero = false) const;

 private:
  Json object_;
  ConfigPlace place_;
};

}  // namespace attn::io
