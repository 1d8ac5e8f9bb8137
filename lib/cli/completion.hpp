#pragma once

#include <string>
#include <vector>

#include "cli/option.hpp"

// What the completion scripts of all shells complete, and a printer for each shell.

namespace attn::cli {

/// The candidates for a value.
enum class Candidates {
  none,     ///< a number or a name, which only the user knows
  words,    ///< one of `words`
  list,     ///< some of `words`, separated by commas
  files,    ///< a path
  folders,  ///< a path of a folder
  address,  ///< NAME=, then a path
};

/// An option, with the candidates for its value.
struct CompletedOption {
  Option option;  ///< its help is cut to the first sentence
  Candidates candidates = Candidates::none;
  std::string words;   ///< the words that it accepts, with blanks between them
  bool always = true;  ///< at any point; else before a verb, and after one of `verbs`
  std::vector<std::string> verbs = {};  ///< by name
};

struct Completion {
  std::string tool;
  std::string identifier;  ///< "attn_compute": part of the names of shell functions
  std::vector<CompletedOption> options;
  std::vector<Declaration::Verb>
      verbs;  ///< those with a name; their help is cut to the first sentence
  std::string verb_placeholder;
  bool verb_is_optional = false;
  bool accepts_files = false;  ///< as positional words
  std::string words_placeholder;

  /// The names of the verbs with `separator` between them.
  std::string verb_names(const std::string& separator) const;

  /// The first comment of a script: its tool, and the command that prints it.
  std::string heading(const std::string& shell) const;
};

std::string bash_completion(const Completion& completion);
std::string zsh_completion(const Completion& completion);
std::string fish_completion(const Completion& completion);

}  // namespace attn::cli
