#pragma once

#include <string>
#include <vector>

#include "train/vocabulary.hpp"

// The special tokens of all objectives, besides <unk> and <eos>, which lib/train knows.

namespace attn::tools {

inline const std::string mask_symbol = "[MASK]";
inline const std::string first_symbol = "[CLS]";
inline const std::string separator_symbol = "[SEP]";
inline const std::string blank_symbol = "[BLANK]";
inline const std::string start_symbol = "<s>";
inline const std::string end_symbol = "</s>";

inline const std::vector<std::string>& special_tokens() {
  static const std::vector<std::string> all = {std::string(train::unknown_symbol),
                                               std::string(train::line_end_symbol),
                                               mask_symbol,
                                               first_symbol,
                                               separator_symbol,
                                               blank_symbol,
                                               start_symbol,
                                               end_symbol};
  return all;
}

}  // namespace attn::tools
