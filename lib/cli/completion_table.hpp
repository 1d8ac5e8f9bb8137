#pragma once

#include <string>
#include <vector>

#include "cli/option.hpp"

// The parts of a declaration that the completion scripts of all shells are made from.

namespace attn::cli {

/// The candidates for a value.
enum class Candidates {
  none,     ///< a number or a name, which only the user knows
  words,    ///< one of candidate_words()
  list,     ///< some of candidate_words(), separated by commas
  files,    ///< a path
  folders,  ///< a path of a folder
  address,  ///< NAME=, then a path
};

Candidates candidates_for(const Option& option);

/// The fixed words that an option accepts.
std::vector<std::string> candidate_words(const Option& option);

/// Whether the positional words of a tool name files.
bool accepts_files(const Declaration::Impl& declaration);

/// "attn_compute" for attn-compute: part of the names of shell functions.
std::string identifier(const std::string& tool);

/// The first comment of a script: its tool, and the command that prints it.
std::string script_heading(const std::string& tool, const std::string& shell);

std::string bash_completion(const Declaration::Impl& declaration);
std::string zsh_completion(const Declaration::Impl& declaration);
std::string fish_completion(const Declaration::Impl& declaration);

}  // namespace attn::cli
