#include "attn_train/data_sizes.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "attn_train/run_data.hpp"
#include "cli/words.hpp"

namespace attn::tools {

std::string data_words(const DataSizes& sizes) {
  std::string text =
      fmt::format("{} in the vocabulary", cli::counted(sizes.vocabularies.back(), "symbol"));
  if (sizes.vocabularies.size() > 1) {
    text = fmt::format("{} and {} symbols in the vocabularies", sizes.vocabularies[0],
                       sizes.vocabularies[1]);
  }
  const char* separator = "; ";
  for (const Split split : all_splits) {
    const auto n = static_cast<std::size_t>(split);
    if (sizes.items[n] == 0) continue;
    const std::string items =
        cli::counted(sizes.items[n], sizes.tokens[n] > 0 ? "sequence" : "example");
    text += separator + name_of(split) + ": " +
            (sizes.tokens[n] > 0
                 ? fmt::format("{} in {}", cli::counted(sizes.tokens[n], "token"), items)
                 : items);
    separator = ", ";
  }
  return text;
}

nlohmann::ordered_json data_json(const DataSizes& sizes) {
  auto splits = nlohmann::ordered_json::object();
  for (const Split split : all_splits) {
    const auto n = static_cast<std::size_t>(split);
    if (sizes.items[n] == 0) continue;
    splits[name_of(split)]["items"] = sizes.items[n];
    if (sizes.tokens[n] > 0) splits[name_of(split)]["tokens"] = sizes.tokens[n];
  }
  return splits;
}

}  // namespace attn::tools
