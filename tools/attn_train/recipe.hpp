#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "attn_train/recipe_keys.hpp"
#include "attnkit/error.hpp"
#include "tensor/shape.hpp"

namespace attn::tools {

/// The description of a training run: values of the keys of recipe_keys(), from a file and --set.
class Recipe {
 public:
  /// Reads the TOML file; `settings` are "KEY=VALUE", which replace its values; run.steps and
  /// run.epochs also replace each other. Throws Error(input), with the line, for errors in the
  /// file, and Error(usage) for errors in a setting: an unknown key, with the nearest known one as
  /// a hint, or a value of the wrong type or out of range.
  Recipe(const std::string& file, const std::vector<std::string>& settings);

  /// Whether the file or a setting has this key.
  bool given(const std::string& key) const;

  /// Whether a setting has this key.
  bool is_set(const std::string& key) const { return set_.count(key) > 0; }

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

  /// The values of all keys that apply to the objective and the model, by key; null without a
  /// value, such as run.steps if run.epochs is used.
  nlohmann::ordered_json values() const;

  /// The error for a value that does not fit the others: Error(input) "FILE:LINE: KEY WHAT", or
  /// Error(usage) "--set KEY WHAT".
  Error refusal(const std::string& key, const std::string& what,
                const std::string& hint = {}) const;

 private:
  void read_file();
  void set(const std::string& setting);
  void choose_model();
  void resolve();
  const RecipeKey& known(const std::string& name) const;
  bool is_fitting(const RecipeKey& key) const;
  void require_fitting() const;
  const nlohmann::ordered_json& value(const std::string& key) const;

  std::string file_;
  std::map<std::string, std::size_t> lines_;  // of keys in the file
  std::set<std::string> set_;                 // keys of settings
  nlohmann::ordered_json values_;
};

}  // namespace attn::tools
