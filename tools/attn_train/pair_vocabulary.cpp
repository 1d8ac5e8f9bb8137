#include "attn_train/pair_vocabulary.hpp"

#include <utility>

#include "attn_train/token_task.hpp"

namespace attn::tools {
namespace {

// The columns of all pairs, one text each.
std::pair<std::string, std::string> columns_of(const TextPairs& pairs) {
  std::pair<std::string, std::string> columns;
  for (const auto& [source, target] : pairs) {
    columns.first += source + "\n";
    columns.second += target + "\n";
  }
  return columns;
}

}  // namespace

void PairVocabulary::write(io::OutputBundle& bundle) const {
  write_symbols(source, "source_vocabulary", bundle);
  write_symbols(target, "target_vocabulary", bundle);
}

PairVocabulary learn_pair_vocabulary(const Recipe& recipe, const SplitTexts& texts) {
  auto [source, target] = columns_of(pairs_in(texts, Split::train));
  const std::vector<std::string> specials = {std::string(train::unknown_symbol), start_symbol,
                                             end_symbol};
  if (recipe.flag("data.joint")) {
    const train::Vocabulary joint =
        learn_vocabulary(recipe, texts, "target_vocabulary", source + target, specials);
    return {joint, joint};
  }
  return {learn_vocabulary(recipe, texts, "source_vocabulary", source, {specials.front()}),
          learn_vocabulary(recipe, texts, "target_vocabulary", target, specials)};
}

}  // namespace attn::tools
