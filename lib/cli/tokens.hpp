#pragma once

#include <string>
#include <vector>

#include "cli/option.hpp"

namespace attn::cli {

/// One option of a command line with the text of its value, or one positional word.
struct Token {
  const Option* option = nullptr;  ///< null for a positional word
  std::string text;                ///< the value (empty if absent), or the word
};

/// Splits a command line (without the program's name) into options and words, in any order. "--"
/// ends the options; a single "-" is a word; a value may begin with '-' unless it is a known
/// option; an optional value is taken only after '='. The tokens point into `options`. Throws
/// Error(usage) for an unknown option (with a hint at what may be meant), a missing value,
/// or a value for an option without one.
std::vector<Token> take_apart(const std::vector<std::string>& arguments,
                              const std::vector<Option>& options);

}  // namespace attn::cli
