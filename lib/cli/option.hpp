#pragma once

#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "cli/command.hpp"

// What a Declaration holds. For the parts of lib/cli, and for what prints man pages and
// completions; tools use command.hpp only.

namespace attn::cli {

/// One option, with all that parsing and --help need to know of it.
struct Option {
  enum class Kind {
    flag,
    text,
    optional_text,  ///< --json[=FILE]
    assignment,     ///< NAME=ADDRESS, the only kind that may be repeated
    choice,
    choices,
    optional_choice,
    number,
    numbers,
    integer,
    integers,
    points,
    size,         ///< "1.5G": bytes
    seed,         ///< the whole of uint64
    compression,  ///< "gzip:4", normalised
  };
  std::string name;
  char letter = 0;
  Kind kind = Kind::flag;
  std::string placeholder = {};
  std::string help = {};
  std::vector<std::string> values = {};  ///< choice, choices, optional_choice
  Declaration::Range range = {0, 0};     ///< number, numbers
  Index low = 0;                         ///< integer, integers
  Index high = 0;
  bool or_none = false;                      ///< "none" is a value too
  std::optional<std::string> fallback = {};  ///< as it would be typed
  std::vector<std::string> verbs = {};       ///< that it goes with; empty: all
  std::string section = {};

  bool takes_value() const { return kind != Kind::flag; }
  bool value_is_optional() const {
    return kind == Kind::optional_text || kind == Kind::optional_choice;
  }
  bool goes_with(const std::string& verb) const;
};

/// The value of an option: nothing where it is neither given nor has a fallback.
using Value = std::variant<std::monostate, bool, std::string, std::vector<std::string>, double,
                           std::vector<double>, Index, std::vector<Index>,
                           std::vector<std::vector<double>>, std::uint64_t>;

struct Declaration::Impl {
  std::string tool;
  std::string summary;
  Role role = Role::transform;
  std::vector<std::string> about;
  std::vector<Option> options;  ///< the tool's own; all_options adds the common ones
  std::string section = "Options";

  std::string verb_placeholder;
  std::vector<Verb> verbs;

  std::string words_placeholder;
  std::string words_help;
  int words_low = 0;
  int words_high = 0;

  struct Example {
    std::string command;
    std::string says;
  };
  std::vector<Example> examples;
  std::map<int, std::string> exit_statuses;

  /// The role in force with `verb` (empty: no verb).
  Role role_of(const std::string& verb) const;
};

/// The tool's own options and then the common ones that its roles have.
std::vector<Option> all_options(const Declaration::Impl& declaration);

bool has_input(Role role);   ///< takes an INPUT
bool has_output(Role role);  ///< takes -o

struct Arguments::Impl {
  std::map<std::string, Option, std::less<>> options;
  std::map<std::string, Value, std::less<>> values;
  std::vector<std::string> order;  ///< names as in --help
  std::vector<std::string> given;  ///< names that stood on the command line
  std::vector<std::string> words;
  std::vector<std::string> positionals;  ///< words and INPUT as resolved
};

}  // namespace attn::cli
