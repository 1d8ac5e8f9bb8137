#pragma once

#include <string>
#include <vector>

#include "cli/option.hpp"

namespace attn::cli {

/// One option of a command line with the text of its value, or one positional word.
struct Token {
  const Option* option = nullptr;  ///< none: a positional word
  std::string text;                ///< the value, empty where there is none; or the word
};

/// Takes a command line (without the program's name) apart. Options and words may stand in any
/// order; "--" ends the options; a single "-" is a word; a value may begin with '-' unless it is a
/// known option; an optional value is taken after '=' only. The tokens point into `options`.
/// Throws Error(usage): an unknown option (with what may have been meant as the hint), a value
/// that is missing or too much.
std::vector<Token> take_apart(const std::vector<std::string>& arguments,
                              const std::vector<Option>& options);

}  // namespace attn::cli
