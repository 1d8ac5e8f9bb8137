#include "common/options/padding_words.hpp"
#include "cli/words.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace attn::tools {

std::string padding_words(const Padding& padding) {
  if (padding.queries + padding.keys == 0) return "";
  return fmt::format(", without {} and {} of padding",
                     cli::counted(padding.queries, "query", "queries"),
                     cli::counted(padding.keys, "key"));
}

void add_padding(const Padding& padding, nlohmann::ordered_json& json) {
  json["padded_queries"] = padding.queries;
  json["padded_keys"] = padding.keys;
}

}  // namespace attn::tools
