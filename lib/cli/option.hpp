#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "cli/command.hpp"

// The contents of a Declaration, for the files of lib/cli. Tools include command.hpp only.

namespace attn::cli {

/// One option: everything that parsing, --help, the man page and the completions use.
struct Option {
  enum class Kind {
    flag,
    text,
    optional_text,  ///< --json[=FILE]
    texts,          ///< may be repeated
    assignment,     ///< NAME=ADDRESS; may be repeated
    choice,
    choices,
    optional_choice,
    number,
    numbers,
    integer,
    integers,
    points,
    size,         ///< "1.5G": bytes
    seed,         ///< any unsigned 64-bit integer
    compression,  ///< "gzip" or "gzip:N", stored as "gzip:N"
  };
  std::string name;
  char letter = 0;
  Kind kind = Kind::flag;
  std::string placeholder = {};
  std::string help = {};
  std::vector<std::string> values = {};              ///< choice, choices, optional_choice
  std::map<std::string, std::string> synonyms = {};  ///< other words for some of these, for hints
  Declaration::Range range = {0, 0};                 ///< number, numbers
  Index low = 0;                                     ///< integer, integers
  Index high = 0;
  bool or_none = false;                      ///< accepts "none", too
  std::optional<std::string> fallback = {};  ///< as typed on a command line
  std::string default_words = {};            ///< describes a default that depends on the input
  std::vector<std::string> verbs = {};       ///< the verbs that accept it; none: all
  std::string section = {};                  ///< its heading

  bool may_be_repeated() const { return kind == Kind::texts || kind == Kind::assignment; }
  bool takes_value() const { return kind != Kind::flag; }
  bool value_is_optional() const {
    return kind == Kind::optional_text || kind == Kind::optional_choice;
  }
  bool goes_with(const std::string& verb) const;
};

/// The value of an option; monostate if it is not given and has no fallback.
using Value = std::variant<std::monostate, bool, std::string, std::vector<std::string>, double,
                           std::vector<double>, Index, std::vector<Index>,
                           std::vector<std::vector<double>>, std::uint64_t>;

struct Declaration::Impl {
  std::string tool;
  std::string summary;
  Role role = Role::transform;
  std::vector<std::string> about;
  std::vector<Option> options;         ///< the tool's own; all_options adds the common ones
  std::string section = "Options";     ///< the heading of the next option
  std::vector<std::string> for_verbs;  ///< the verbs that accept the next option; none: all

  bool several_inputs = false;
  bool bf16 = false;  // among the words of --precision

  std::string verb_placeholder;
  std::vector<Verb> verbs;

  std::string words_placeholder;
  std::string words_help;
  int words_low = 0;
  int words_high = 0;

  struct Example {
    std::string command;
    std::string explanation;
  };
  std::vector<Example> examples;
  std::map<int, std::string> exit_statuses;

  struct Dataset {
    std::string name;
    std::string shape;
    std::string meaning;
  };
  std::vector<std::string> formulas;
  std::vector<Dataset> datasets;        ///< read
  std::vector<Dataset> results;         ///< written
  std::vector<Dataset> columns;         ///< of --tsv and --csv, without shapes
  std::vector<Dataset> report_members;  ///< of the JSON report's `result`, without shapes
  std::vector<std::string> references;

  struct Topic {
    std::string name;
    std::function<std::string()> text;
  };
  std::optional<Topic> topic;  ///< of --help=NAME

  /// The role that applies with `verb` (empty: no verb).
  Role role_of(const std::string& verb) const;
};

inline constexpr const char* common_heading = "Common options";

/// The tool's own options and the common ones of its roles, grouped by heading in order of first
/// use; the common options come last.
std::vector<Option> all_options(const Declaration::Impl& declaration);

/// The common option --allow-external, without its heading.
Option external_links_option();

bool has_input(Role role);   ///< accepts an INPUT
bool has_output(Role role);  ///< accepts -o

/// The roles of a tool's verbs, or its own.
std::set<Role> roles_of(const Declaration::Impl& declaration);

/// `verbs` without the empty name, which stands for no verb.
std::vector<std::string> without_empty(std::vector<std::string> verbs);

/// The names of a tool's verbs.
std::vector<std::string> verb_names(const Declaration::Impl& declaration);

/// Whether a tool with verbs can be called without one.
bool verb_is_optional(const Declaration::Impl& declaration);

struct Arguments::Impl {
  std::map<std::string, Option, std::less<>> options;
  std::map<std::string, Value, std::less<>> values;
  std::vector<std::string> order;  ///< names in the order of --help
  std::vector<std::string> given;  ///< names on the command line
  std::vector<std::string> words;
  std::vector<std::string> positionals;  ///< the words and the resolved INPUT
};

}  // namespace attn::cli
