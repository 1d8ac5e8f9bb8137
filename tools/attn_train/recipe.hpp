#pragma once

#include <map>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "attn_train/recipe_keys.hpp"
#include "attnkit/error.hpp"
#include "tensor/shape.hpp"

namespace attn::tools {

/// What a run trains, and how: values of the keys of recipe_keys(), from a file and --set.
class Recipe {
 public:
  /// Reads the TOML file; `settings` are "KEY=VALUE", which replace its values. Throws Error(input)
  /// for what is wrong in the file, with its line, and Error(usage) for a setting: an unknown key,
  /// with the nearest known one as a hint, and a value of the wrong type or out of range.
  Recipe(const std::string& file, const std::vector<std::string>& settings);

  /// Whether the file or a setting has this key.
  bool given(const std::string& key) const;

  // A key that is not given and has no default is a bug: std::logic_error.
  bool flag(const std::string& key) const { return value(key).get<bool>(); }
  Index integer(const std::string& key) const { return value(key).get<Index>(); }
  double number(const std::string& key) const { return value(key).get<double>(); }
  std::string text(const std::string& key) const { return value(key).get<std::string>(); }
  std::vector<double> numbers(const std::string& key) const {
    return value(key).get<std::vector<double>>();
  }
  std::vector<std::string> words(const std::string& key) const {
    return value(key).get<std::vector<std::string>>();
  }

  /// The value of another key if this one is not given.
  Index integer_or(const std::string& key, const std::string& other) const {
    return integer(given(key) ? key : other);
  }

  /// All values, by key; null where there is none.
  const nlohmann::ordered_json& values() const { return values_; }

  /// The error for a value that does not go with the others: Error(input) "FILE:LINE: KEY WHAT", or
  /// Error(usage) "--set KEY WHAT".
  Error refusal(const std::string& key, const std::string& what,
                const std::string& hint = {}) const;

 private:
  void require_fitting() const;
  const nlohmann::ordered_json& value(const std::string& key) const;

  std::string file_;
  std::map<std::string, std::size_t> lines_;  // of keys in the file
  std::map<std::string, bool> given_;         // true: by --set
  nlohmann::ordered_json values_;
};

}  // namespace attn::tools
