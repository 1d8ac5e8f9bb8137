#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "stats/word_alignment.hpp"

namespace attn::tools {

/// A text file with the links of sentence pairs, a line for each pair: "0-0 2p1" has a sure link
/// i-j of source word i and target word j, and a possible link ipj.
class LinkFile {
 public:
  /// `base` is the number of the first word of a sentence, 0 or 1, by --`base_option`. Throws
  /// Error(input) naming file, line and link for anything that is not a link, and for a word 0 if
  /// the first is 1; Error(memory).
  LinkFile(const std::string& file, Index base, const std::string& base_option,
           std::int64_t memory);

  const std::string& file() const { return file_; }
  Index pairs() const { return static_cast<Index>(pairs_.size()); }
  std::int64_t bytes() const { return bytes_; }  ///< an upper bound on the memory

  /// The links of one pair as a set (stats/word_alignment.hpp), with words counted from 0.
  const std::vector<WordLink>& links(Index pair) const {
    return pairs_[static_cast<std::size_t>(pair)];
  }

  /// Throws Error(input) naming file, line and link if a word of a pair is beyond its sentence;
  /// `weights` names the source of these lengths, for the message.
  void require_within(Index pair, Index source_words, Index target_words,
                      const std::string& weights) const;

 private:
  std::vector<WordLink> read_line(const std::string& text) const;
  std::string place(Index pair) const;

  std::string file_;
  Index base_;
  std::string base_option_;
  std::vector<std::vector<WordLink>> pairs_;
  std::int64_t bytes_ = 0;
};

}  // namespace attn::tools
