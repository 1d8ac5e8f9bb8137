#include <algorithm>

#include <fmt/format.h>

#include "cli/completion_table.hpp"
#include "cli/wording.hpp"

namespace attn::cli {
namespace {

std::string quoted(const std::string& text) {
  std::string safe;
  for (const char c : text) {
    if (c == '\'' || c == '\\') safe += '\\';
    safe += c;
  }
  return "'" + safe + "'";
}

std::string list_function(const std::string& tool) { return "__" + identifier(tool) + "_list"; }

// Prints each word that is not in the list yet, with the items before it, since fish completes
// whole arguments. fish appends a blank to the only candidate: offered with and without a comma, it
// gets none.
std::string list_definition(const std::string& tool) {
  return fmt::format(
      "function {}\n"
      "    set -l before (commandline -ct | string replace -r -- '^--[^=]*=' '' |\n"
      "        string match -r -- '^.*,')\n"
      "    set -l item (commandline -ct | string replace -r -- '^--[^=]*=' '' |\n"
      "        string replace -r -- '^.*,' '')\n"
      "    set -l pattern '^'(string escape --style=regex -- \"$item\")\n"
      "    set -l fitting\n"
      "    for word in (string match -r -- $pattern'.*' $argv)\n"
      "        contains -- $word (string split , -- \"$before\"); or set -a fitting $word\n"
      "    end\n"
      "    set -q fitting[1]; or return\n"
      "    printf '%s\\n' \"$before\"$fitting\n"
      "    set -q fitting[2]; or printf '%s,\\n' \"$before\"$fitting\n"
      "end\n",
      list_function(tool));
}

// -r: a value must follow; -x: the same, and it is no file.
std::string value_flags(const std::string& tool, const Option& option) {
  const std::string required = option.value_is_optional() ? "-f" : "-x";
  switch (candidates_for(option)) {
    case Candidates::words:
      return fmt::format(" {} -a '{}'", required, fmt::join(candidate_words(option), " "));
    case Candidates::list:
      return fmt::format(" -x -a '({} {})'", list_function(tool),
                         fmt::join(candidate_words(option), " "));
    case Candidates::files:
    case Candidates::address:
      return option.value_is_optional() ? " -F" : " -r -F";
    case Candidates::folders:
      return " -x -a '(__fish_complete_directories)'";
    case Candidates::none:
      break;
  }
  return " -x";
}

// Holds before the verb and with the verbs of the option.
std::string condition(const Declaration::Impl& declaration, const Option& option) {
  if (option.verbs.empty()) return "";
  const std::string before =
      fmt::format("not __fish_seen_subcommand_from {}", fmt::join(verb_names(declaration), " "));
  const std::vector<std::string> own = without_empty(option.verbs);
  if (own.empty()) return " -n '" + before + "'";
  return fmt::format(" -n '{}; or __fish_seen_subcommand_from {}'", before, fmt::join(own, " "));
}

std::string verb_lines(const Declaration::Impl& declaration) {
  // -f: no file may stand in the place of the verb.
  const std::string no_file = verb_is_optional(declaration) ? "" : " -f";
  std::string lines;
  for (const Declaration::Verb& verb : declaration.verbs) {
    if (verb.name.empty()) continue;
    lines += fmt::format("complete -c {}{} -n 'not __fish_seen_subcommand_from {}' -a {} -d {}\n",
                         declaration.tool, no_file, fmt::join(verb_names(declaration), " "),
                         verb.name, quoted(first_sentence(verb.help)));
  }
  return lines;
}

}  // namespace

std::string fish_completion(const Declaration::Impl& declaration) {
  const std::string& tool = declaration.tool;
  const std::vector<Option> options = all_options(declaration);
  const bool has_list = std::any_of(options.begin(), options.end(), [](const Option& option) {
    return candidates_for(option) == Candidates::list;
  });
  std::string script = script_heading(tool, "fish") + "\n";
  if (has_list) script += list_definition(tool) + "\n";
  if (!accepts_files(declaration)) script += fmt::format("complete -c {} -f\n", tool);
  script += verb_lines(declaration);
  for (const Option& option : options) {
    script += fmt::format("complete -c {}{}", tool, condition(declaration, option));
    if (option.letter != 0) script += fmt::format(" -s {}", option.letter);
    script += " -l " + option.name;
    if (option.takes_value()) script += value_flags(tool, option);
    script += " -d " + quoted(first_sentence(option.help)) + "\n";
  }
  return script;
}

}  // namespace attn::cli
