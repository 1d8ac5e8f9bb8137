#include "io/map_hints.hpp"

#include <algorithm>
#include <array>
#include <string_view>

namespace attn::io {
namespace {

// The names that other programs give to q, k or v.
std::vector<std::string> other_names(std::size_t operand) {
  const std::string letter(1, "qkv"[operand]);
  const std::string upper(1, "QKV"[operand]);
  const std::string word = std::array{"query", "key", "value"}[operand];
  const std::string plural = operand == 0 ? "queries" : word + "s";
  // numpy.savez gives arr_0 to its first array without a name.
  return {upper,
          word,
          plural,
          letter + "_proj",
          word + "_states",
          word + "_layer",
          "arr_" + std::to_string(operand)};
}

// "--map q=Q,k=K,v=V" if datasets with this prefix have such names, `name` among them; else empty.
std::string map_of_names(const std::string& name, const std::vector<std::string>& there,
                         const std::string& prefix) {
  const auto has = [&](const std::string& stored) {
    return std::find(there.begin(), there.end(), stored) != there.end();
  };
  std::string map;
  bool helps = false;
  for (std::size_t operand = 0; operand < 3; ++operand) {
    const std::string letter(1, "qkv"[operand]);
    if (has(letter)) continue;
    std::vector<std::string> others = other_names(operand);
    if (!prefix.empty()) others.insert(others.begin(), letter);
    for (const std::string& other : others) {
      const std::string stored = prefix + other;
      // A --map cannot name these, or not without quotes.
      if (!has(stored) || stored.find_first_of(",= '\"") != std::string::npos) continue;
      map += (map.empty() ? "--map " : ",") + letter + "=" + stored;
      helps = helps || letter == name;
      break;
    }
  }
  return helps ? map : "";
}

// "blocks.0.attn.hook_" for "blocks.0.attn.hook_q"; empty without such a prefix, and for names of
// gradients, weights and biases.
std::string prefix_of(const std::string& stored, const std::string& other) {
  if (!stored.ends_with(other)) return "";
  std::string prefix = stored.substr(0, stored.size() - other.size());
  if (prefix.empty() || std::string_view("._/").find(prefix.back()) == std::string_view::npos) {
    return "";
  }
  for (const std::string_view end : {"grad_", "grad.", "w_", "W_", "b_"}) {
    if (prefix.ends_with(end)) return "";
  }
  return prefix;
}

}  // namespace

std::string hint_on_names(const std::string& name, const std::vector<std::string>& there) {
  const std::size_t operand = name.size() == 1 ? std::string_view("qkv").find(name) : 3;
  if (operand >= 3) return "";
  if (std::string map = map_of_names(name, there, ""); !map.empty()) return map;
  std::vector<std::string> others = other_names(operand);
  others.insert(others.begin(), name);
  for (const std::string& stored : there) {
    for (const std::string& other : others) {
      const std::string prefix = prefix_of(stored, other);
      if (!prefix.empty()) return map_of_names(name, there, prefix);
    }
  }
  return "";
}

}  // namespace attn::io
