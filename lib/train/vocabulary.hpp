#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tensor/shape.hpp"
#include "train/byte_pairs.hpp"

namespace attn::train {

/// The kinds of tokens of a text.
enum class TokenKind {
  characters,  ///< a code point
  words,       ///< the text between white space
  byte_pairs,  ///< a part of a word, made by learned merges (Sennrich et al., ACL 2016)
};

/// The special token for symbols that a vocabulary lacks.
inline constexpr std::string_view unknown_symbol = "<unk>";
/// The special token that is the end of a line.
inline constexpr std::string_view line_end_symbol = "<eos>";

struct VocabularyOptions {
  TokenKind kind = TokenKind::characters;
  Index size = 0;  ///< the most symbols, special tokens included; 0: all symbols of the text
  std::vector<std::string> specials;  ///< the first tokens, in this order
  /// Each line feed is the token "<eos>", which becomes the last special token unless it already is
  /// one. Not for characters, where a line feed is a character.
  bool line_ends = false;
  bool exact = false;  ///< a text that has fewer symbols than `size` is an error
};

/// The parts of a vocabulary, as a checkpoint stores them.
struct VocabularyParts {
  TokenKind kind = TokenKind::characters;
  Index specials = 0;  ///< the first symbols that are special tokens
  bool line_ends = false;
  std::vector<std::string> symbols;  ///< by token
  /// In the order in which they were learned; merge n of m makes symbol size - m + n.
  std::vector<Merge> merges;
};

/// A numbering of the symbols of a text: the special tokens, then the others.
///
/// White space means ASCII white space. Byte pairs treat a word as a space and its characters, so
/// that exactly the symbols that begin a word begin with a space. Special tokens are never found in
/// a text, except that with words, a word of the same bytes is the special token.
class Vocabulary {
 public:
  /// Learns the symbols of a text:
  /// - characters and words: the most frequent ones, ties by bytes, which is the order of code
  /// points;
  /// - byte pairs: the characters of all words, ordered likewise, then merges. A merge joins the
  /// pair of neighbours with the highest count over all words, overlapping occurrences included;
  /// ties go to the pair whose left symbol, then right symbol, comes first by bytes. Merging ends
  /// at `size` or when no pair occurs twice. The time is proportional to the number of changed
  /// neighbours, times a logarithm.
  ///
  /// Throws Error(input) if the text is not UTF-8 (with the offset of the byte, from 0), is empty
  /// or has no words, if special tokens are empty or equal, if `size` has no room beyond the
  /// special tokens or for all characters of byte pairs, or is not reached though `exact`.
  static Vocabulary learn(std::string_view text, const VocabularyOptions& options);

  /// The vocabulary of stored parts. Throws Error(input) if they contradict each other.
  explicit Vocabulary(VocabularyParts parts);

  /// The tokens of a text, which may be empty. Byte pairs join two neighbours of a word as long as
  /// some are a merge: the leftmost pair of the earliest merge. A symbol that is not in the
  /// vocabulary (a character for byte pairs) is "<unk>". Throws Error(input) if the text is not
  /// UTF-8, or if "<unk>" is needed but missing.
  std::vector<Index> encode(std::string_view text) const;

  /// The text of tokens. Special tokens become their symbols, and an "<eos>" that was a line end
  /// becomes a line feed. decode(encode(text)) is the text if it has no unknown parts; for words
  /// and byte pairs with white space normalised: one space between words, none at the ends of
  /// lines, and line feeds only with `line_ends`. Throws Error(input) for a token beyond the
  /// vocabulary.
  std::string decode(const std::vector<Index>& tokens) const;

  Index size() const { return static_cast<Index>(parts_.symbols.size()); }
  TokenKind kind() const { return parts_.kind; }
  const std::vector<std::string>& symbols() const { return parts_.symbols; }
  const std::vector<Merge>& merges() const { return parts_.merges; }
  const VocabularyParts& parts() const { return parts_; }

  /// The special token of this name, if there is one.
  std::optional<Index> special(std::string_view name) const;

 private:
  struct Joined {
    Index rank;  // of the merge
    Index token;
  };

  void index_symbols();
  void index_merges();
  Index token_of(std::string_view symbol) const;
  std::vector<Index> pieces_of(std::string_view word) const;

  VocabularyParts parts_;
  std::map<std::string, Index, std::less<>> tokens_;  // of symbols that a text can have
  std::map<Merge, Joined> joined_;
  std::optional<Index> unknown_;
  std::optional<Index> line_end_;
};

}  // namespace attn::train
