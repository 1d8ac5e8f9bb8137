#include <fmt/format.h>

#include "cli/completion_table.hpp"
#include "cli/wording.hpp"

namespace attn::cli {
namespace {

// Completes a path behind NAME=.
constexpr const char* after_equals = "{ compset -P \"*=\"; _files }";

// `text` inside of the single quotes of a specification of _arguments.
std::string escaped(const std::string& text) {
  std::string safe;
  for (const char c : text) {
    if (c == '\'') {
      safe += "'\\''";
    } else {
      if (c == '[' || c == ']' || c == ':' || c == '\\') safe += '\\';
      safe += c;
    }
  }
  return safe;
}

std::string action(const Option& option) {
  switch (candidates_for(option)) {
    case Candidates::words:
      return fmt::format("({})", fmt::join(candidate_words(option), " "));
    case Candidates::list:
      return fmt::format("_sequence compadd - {}", fmt::join(candidate_words(option), " "));
    case Candidates::files:
      return "_files";
    case Candidates::folders:
      return "_files -/";
    case Candidates::address:
      return after_equals;
    case Candidates::none:
      break;
  }
  return " ";
}

// '--scheme=[...]:WORD:(unas dnas)', '(-o --output)'{-o+,--output=}'[...]:FILE:_files'
std::string specification(const Option& option) {
  std::string rest = "[" + escaped(first_sentence(option.help)) + "]";
  std::string mark;
  std::string letter_mark;
  if (option.takes_value()) {
    // "=-": only in the same word; "+": in the same word or the next one.
    mark = option.value_is_optional() ? "=-" : "=";
    letter_mark = "+";
    rest += fmt::format("{}{}:{}", option.value_is_optional() ? "::" : ":",
                        escaped(option.placeholder), action(option));
  }
  const bool repeated = option.may_be_repeated();
  if (option.letter == 0) {
    return fmt::format("'{}--{}{}{}'", repeated ? "*" : "", option.name, mark, rest);
  }
  const std::string exclusive =
      repeated ? "'*'" : fmt::format("'(-{} --{})'", option.letter, option.name);
  return fmt::format("{}{{-{}{},--{}{}}}'{}'", exclusive, option.letter, letter_mark, option.name,
                     mark, rest);
}

std::string option_lines(const Declaration::Impl& declaration) {
  std::string lines = "  specs=(\n";
  std::string by_verb;
  for (const Option& option : all_options(declaration)) {
    if (option.verbs.empty()) {
      lines += "    " + specification(option) + "\n";
    } else {
      const std::vector<std::string> own = without_empty(option.verbs);
      const std::string also =
          own.empty() ? "" : fmt::format(" || $verb == ({})", fmt::join(own, "|"));
      by_verb +=
          fmt::format("  if [[ -z $verb{} ]]; then specs+=({}); fi\n", also, specification(option));
    }
  }
  return lines + "  )\n" + by_verb;
}

std::string positional_lines(const Declaration::Impl& declaration) {
  std::string lines;
  const std::string verb = escaped(declaration.verb_placeholder);
  const std::string names = fmt::format("{}", fmt::join(verb_names(declaration), " "));
  if (verb_is_optional(declaration)) {
    lines += fmt::format(
        "  specs+=('1:{0}:{{ _alternative \"verb:{0}:({1})\" \"file:file:_files\" }}')\n", verb,
        names);
  } else if (!declaration.verbs.empty()) {
    lines += fmt::format("  specs+=('1:{}:({})')\n", verb, names);
  }
  return lines +
         fmt::format("  specs+=('*:{}:{}')\n",
                     accepts_files(declaration) ? "file" : escaped(declaration.words_placeholder),
                     accepts_files(declaration) ? after_equals : " ");
}

}  // namespace

std::string zsh_completion(const Declaration::Impl& declaration) {
  const std::string& tool = declaration.tool;
  std::string script = fmt::format("#compdef {}\n", tool) + script_heading(tool, "zsh");
  script += fmt::format("\n_{}() {{\n  local -a specs\n", tool);
  if (!declaration.verbs.empty()) {
    script +=
        fmt::format("  local verb=${{words[(r)({})]}}\n", fmt::join(verb_names(declaration), "|"));
  }
  script += option_lines(declaration) + positional_lines(declaration);
  script += "  _arguments -s -S $specs\n}\n\n";
  // compinit loads the file as the body of the function; otherwise somebody sources it.
  script += fmt::format(
      "if [[ $funcstack[1] == _{0} ]]; then\n  _{0} \"$@\"\nelse\n  compdef _{0} {0}\nfi\n", tool);
  return script;
}

}  // namespace attn::cli
