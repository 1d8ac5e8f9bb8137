#include <algorithm>

#include <fmt/format.h>

#include "cli/completion.hpp"

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

std::string list_function(const Completion& completion) {
  return "__" + completion.identifier + "_list";
}

// Prints each word that is not in the list yet, with the items before it, since fish completes
// whole arguments. fish appends a blank to the only candidate: offered with and without a comma, it
// gets none.
std::string list_definition(const Completion& completion) {
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
      list_function(completion));
}

// -r: a value must follow; -x: the same, and it is no file.
std::string value_flags(const Completion& completion, const CompletedOption& item) {
  const bool is_optional = item.option.value_is_optional();
  switch (item.candidates) {
    case Candidates::words:
      return fmt::format(" {} -a '{}'", is_optional ? "-f" : "-x", item.words);
    case Candidates::list:
      return fmt::format(" -x -a '({} {})'", list_function(completion), item.words);
    case Candidates::files:
    case Candidates::address:
      return is_optional ? " -F" : " -r -F";
    case Candidates::folders:
      return " -x -a '(__fish_complete_directories)'";
    case Candidates::none:
      break;
  }
  return " -x";
}

// Holds before the verb.
std::string before_verb(const Completion& completion) {
  return "not __fish_seen_subcommand_from " + completion.verb_names(" ");
}

// Holds before the verb and with the verbs of the option.
std::string condition(const Completion& completion, const CompletedOption& item) {
  if (item.always) return "";
  if (item.verbs.empty()) return " -n '" + before_verb(completion) + "'";
  return fmt::format(" -n '{}; or __fish_seen_subcommand_from {}'", before_verb(completion),
                     fmt::join(item.verbs, " "));
}

std::string verb_lines(const Completion& completion) {
  // -f: no file may stand in the place of the verb.
  const std::string no_file = completion.verb_is_optional ? "" : " -f";
  std::string lines;
  for (const Declaration::Verb& verb : completion.verbs) {
    lines += fmt::format("complete -c {}{} -n '{}' -a {} -d {}\n", completion.tool, no_file,
                         before_verb(completion), verb.name, quoted(verb.help));
  }
  return lines;
}

}  // namespace

std::string fish_completion(const Completion& completion) {
  const std::string& tool = completion.tool;
  const bool has_list =
      std::any_of(completion.options.begin(), completion.options.end(),
                  [](const auto& item) { return item.candidates == Candidates::list; });
  std::string script = completion.heading("fish") + "\n";
  if (has_list) script += list_definition(completion) + "\n";
  if (!completion.accepts_files) script += fmt::format("complete -c {} -f\n", tool);
  script += verb_lines(completion);
  for (const CompletedOption& item : completion.options) {
    script += fmt::format("complete -c {}{}", tool, condition(completion, item));
    if (item.option.letter != 0) script += fmt::format(" -s {}", item.option.letter);
    script += " -l " + item.option.name;
    if (item.option.takes_value()) script += value_flags(completion, item);
    script += " -d " + quoted(item.option.help) + "\n";
  }
  return script;
}

}  // namespace attn::cli
