#include <fmt/format.h>

#include "cli/completion.hpp"

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

std::string action(const CompletedOption& item) {
  switch (item.candidates) {
    case Candidates::words:
      return fmt::format("({})", item.words);
    case Candidates::list:
      return "_sequence compadd - " + item.words;
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
std::string specification(const CompletedOption& item) {
  const Option& option = item.option;
  std::string rest = "[" + escaped(item.option.help) + "]";
  std::string mark;
  std::string letter_mark;
  if (option.takes_value()) {
    // "=-": only in the same word; "+": in the same word or the next one.
    mark = option.value_is_optional() ? "=-" : "=";
    letter_mark = "+";
    rest += fmt::format("{}{}:{}", option.value_is_optional() ? "::" : ":",
                        escaped(option.placeholder), action(item));
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

std::string option_lines(const Completion& completion) {
  std::string lines = "  specs=(\n";
  std::string by_verb;
  for (const CompletedOption& item : completion.options) {
    if (item.always) {
      lines += "    " + specification(item) + "\n";
    } else {
      const std::string also =
          item.verbs.empty() ? "" : fmt::format(" || $verb == ({})", fmt::join(item.verbs, "|"));
      by_verb +=
          fmt::format("  if [[ -z $verb{} ]]; then specs+=({}); fi\n", also, specification(item));
    }
  }
  return lines + "  )\n" + by_verb;
}

std::string positional_lines(const Completion& completion) {
  std::string lines;
  const std::string verb = escaped(completion.verb_placeholder);
  if (completion.verb_is_optional) {
    lines += fmt::format(
        "  specs+=('1:{0}:{{ _alternative \"verb:{0}:({1})\" \"file:file:_files\" }}')\n", verb,
        completion.verb_names(" "));
  } else if (!completion.verbs.empty()) {
    lines += fmt::format("  specs+=('1:{}:({})')\n", verb, completion.verb_names(" "));
  }
  return lines +
         fmt::format("  specs+=('*:{}:{}')\n",
                     completion.accepts_files ? "file" : escaped(completion.words_placeholder),
                     completion.accepts_files ? after_equals : " ");
}

}  // namespace

std::string zsh_completion(const Completion& completion) {
  const std::string& tool = completion.tool;
  std::string script = fmt::format("#compdef {}\n", tool) + completion.heading("zsh");
  script += fmt::format("\n_{}() {{\n  local -a specs\n", tool);
  if (!completion.verbs.empty()) {
    script += fmt::format("  local verb=${{words[(r)({})]}}\n", completion.verb_names("|"));
  }
  script += option_lines(completion) + positional_lines(completion);
  script += "  _arguments -s -S $specs\n}\n\n";
  // compinit loads the file as the body of the function; otherwise somebody sources it.
  script += fmt::format(
      "if [[ $funcstack[1] == _{0} ]]; then\n  _{0} \"$@\"\nelse\n  compdef _{0} {0}\nfi\n", tool);
  return script;
}

}  // namespace attn::cli
