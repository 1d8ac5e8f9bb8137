#pragma once

#include <limits>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace attn::tools {

/// One key of a recipe: all that reading, checking and --help=recipe need.
struct RecipeKey {
  enum class Kind { file, choice, choices, integer, number, numbers, flag };
  std::string name;  ///< "model.width"
  Kind kind;
  std::string help;
  nlohmann::ordered_json fallback;      ///< null: none
  std::vector<std::string> words = {};  ///< choice, choices
  double low = 0;                       ///< integer, number, numbers: the least value
  double high = std::numeric_limits<double>::infinity();
  bool low_open = false;  ///< `low` itself is not allowed
  bool high_open = false;
  std::string default_words = {};            ///< describes a default that depends on other keys
  std::vector<std::string> objectives = {};  ///< to which the key applies; empty: all
  std::vector<std::string> models = {};      ///< the same for model.kind

  /// The accepted values: "an integer in [1, 64]", "one of sgd, adam, lamb".
  std::string expectation() const;
};

/// All keys, by table, in the order of --help=recipe.
const std::vector<RecipeKey>& recipe_keys();

/// The models of an objective, by model.kind; the first is the default.
const std::vector<std::string>& models_of(const std::string& objective);

/// The text of --help=recipe.
std::string recipe_help();

}  // namespace attn::tools
