#pragma once

#include <map>
#include <string>
#include <vector>

#include "cli/option.hpp"

// The words about a declaration that --help, the man page and the completions share.

namespace attn::cli {

/// A name with its explanation.
struct Entry {
  std::string label;
  std::string text;
};

/// `text` ending with a full stop.
std::string as_sentence(std::string text);

/// The beginning of `text` up to its first full stop, without the full stop.
std::string first_sentence(const std::string& text);

/// The help of an option, then its values or range, its default, and the verbs that accept it.
std::string explanation(const Option& option);

/// The words after the tool's name on a command line: "VERB", "[options]", "[INPUT]", "[-o
/// OUTPUT]". A verb that may be absent is "[VERB]".
std::vector<std::string> usage_words(const Declaration::Impl& declaration);

/// The verbs, each with what the tool then does.
std::vector<Entry> verb_entries(const Declaration::Impl& declaration);

/// The positional words, INPUT and OUTPUT, each with its explanation and default.
std::vector<Entry> positional_entries(const Declaration::Impl& declaration);

/// The meanings of the exit statuses that the tool returns.
std::map<int, std::string> exit_meanings(const Declaration::Impl& declaration);

}  // namespace attn::cli
