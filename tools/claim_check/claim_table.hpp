#pragma once

#include <toml++/toml.h>

#include <optional>
#include <set>
#include <string>
#include <type_traits>
#include <vector>

namespace attn::tools {

/// One table of a file of claims, which must outlive the object. All members but has and is_...
/// throw Error(input), "claims.toml:12: expected: …", for a value of another type than requested.
class ClaimTable {
 public:
  ClaimTable(const std::string& file, const toml::table& table) : file_(file), table_(table) {}

  std::size_t line() const { return table_.source().begin.line; }

  /// Throws Error(input) that names the file, the line of the key, or else of the table, and the
  /// key.
  [[noreturn]] void refuse(const std::string& key, const std::string& what,
                           const std::string& hint = {}) const;

  /// Refuses a key that is not among `keys`.
  void require_known(const std::set<std::string>& keys) const;

  bool has(const std::string& key) const { return table_.contains(key); }
  bool is_empty_list(const std::string& key) const;
  bool is_text(const std::string& key) const { return table_[key].is_string(); }

  /// Absent without the key. An integer counts as a number; a boolean is no number, and a number no
  /// boolean. `expected` is for messages: "a number".
  template <class T>
  std::optional<T> get(const std::string& key, const char* expected) const {
    const toml::node* node = table_.get(key);
    if (node == nullptr) return std::nullopt;
    return converted<T>(*node, key, expected);
  }

  std::optional<std::string> text(const std::string& key) const;  ///< refuses blanks only
  std::string needed_text(const std::string& key) const;          ///< refuses an absent key
  std::optional<double> number(const std::string& key) const;     ///< refuses NaN
  double not_negative(const std::string& key) const;              ///< finite; 0 without the key

  /// A value or an array of values; empty without the key.
  template <class T>
  std::vector<T> list(const std::string& key, const char* expected) const {
    const toml::node* node = table_.get(key);
    std::vector<T> values;
    if (node == nullptr) return values;
    const toml::array* array = node->as_array();
    if (array == nullptr) return {converted<T>(*node, key, expected)};
    for (const toml::node& item : *array) values.push_back(converted<T>(item, key, expected));
    return values;
  }

  /// The index of a word among `names`.
  std::optional<std::size_t> choice(const std::string& key,
                                    const std::vector<std::string>& names) const;

 private:
  template <class T>
  T converted(const toml::node& node, const std::string& key, const char* expected) const {
    const bool fits = node.is_boolean() == std::is_same_v<T, bool>;
    const auto value = fits ? node.value<T>() : std::nullopt;
    if (!value) refuse(key, std::string("expected ") + expected);
    return *value;
  }

  const std::string& file_;
  const toml::table& table_;
};

}  // namespace attn::tools
