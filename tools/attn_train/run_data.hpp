#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "attn_train/recipe.hpp"
#include "train/vocabulary.hpp"

namespace attn::tools {

class EarlierRun;

enum class Split { train, valid, test };
inline constexpr std::array<Split, 3> all_splits = {Split::train, Split::valid, Split::test};

/// The name of a split in recipes and logs.
std::string name_of(Split split);

/// The text of each split, and their identification.
struct SplitTexts {
  std::array<std::string, 3> texts;
  std::array<std::string, 3> names;  ///< of the files, for messages
  /// The length and the CRC-32 of each text: "1003854-a3b1c2d4 …". Equal data have equal prints.
  std::string print;
  const EarlierRun* from = nullptr;  ///< the run that has learned the vocabularies; null: none

  const std::string& of(Split split) const { return texts[static_cast<std::size_t>(split)]; }
  const std::string& name(Split split) const { return names[static_cast<std::size_t>(split)]; }
};

/// Reads data.text, divided by data.split, or data.train, data.valid and data.test. A division lies
/// between two characters or, if tokens are not characters or examples are lines, at the end of a
/// line. Throws the errors of read_text, and of Recipe::refusal for missing or too many files,
/// shares that are no division, and empty splits. Throws Error(memory) for a text that takes more
/// than `memory` bytes while it is read and divided.
SplitTexts read_split_texts(const Recipe& recipe, std::int64_t memory);

/// The lines of a split as `count` columns, with tabs between. Throws Error(input) "FILE:LINE: …"
/// for a line with another number of columns or with an empty first one.
std::vector<std::vector<std::string>> columns_in(const SplitTexts& texts, Split split,
                                                 std::size_t count);

/// Two columns.
using TextPairs = std::vector<std::pair<std::string, std::string>>;
TextPairs pairs_in(const SplitTexts& texts, Split split);

/// Whether the end of a line is a token.
bool has_line_ends(const Recipe& recipe);

/// The vocabulary by data.tokens, data.vocabulary and, except for pairs, data.line-ends, with some
/// special tokens in front. It is EarlierRun::vocabulary of this name. Without an earlier run, and
/// for the targets of pairs if that run was a language model, it is learned from `text`, training
/// data of `texts`.
train::Vocabulary learn_vocabulary(const Recipe& recipe, const SplitTexts& texts,
                                   const std::string& name, const std::string& text,
                                   std::vector<std::string> specials);

/// The tokens of a text. Throws Error(input) that names the file.
std::vector<Index> encoded(const train::Vocabulary& vocabulary, const std::string& text,
                           const std::string& file);

}  // namespace attn::tools
