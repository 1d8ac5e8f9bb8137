#include <string_view>

#include <fmt/format.h>

#include "cli/completion.hpp"

namespace attn::cli {
namespace {

// In all scripts: `option` is the option whose value is completed, with '=' if it joins the two;
// `prefix` is the typed part of `word` that candidates do not repeat.
constexpr std::string_view beginning = R"(() {
  local word=${COMP_WORDS[COMP_CWORD]} option=${COMP_WORDS[COMP_CWORD - 1]}
  local prefix='' candidates='' words=''
  # bash splits --name=value into three words unless COMP_WORDBREAKS lacks the '='.
  if [[ $word == = ]]; then
    word='' option+='='
  elif [[ $option == = ]]; then
    option=${COMP_WORDS[COMP_CWORD - 2]}=
  elif [[ $word == --*=* ]]; then
    option=${word%%=*}= prefix=${word%%=*}= word=${word#*=}
  fi
)";

constexpr std::string_view end = R"(
  case $candidates in
    list)
      # Another item may follow, so no blank is appended; an item occurs once.
      compopt -o nospace 2>/dev/null
      local item listed='' rest=''
      [[ $word == *,* ]] && listed=${word%,*}, word=${word##*,}
      prefix+=$listed
      for item in $words; do [[ ,$listed == *,"$item",* ]] || rest+=" $item"; done
      words=$rest
      ;;
    address) [[ $word == *=* ]] && prefix+=${word%%=*}= word=${word#*=} ;;
  esac
  case $candidates in
    words | list) mapfile -t COMPREPLY < <(compgen -P "$prefix" -W "$words" -- "$word") ;;
    folders) mapfile -t COMPREPLY < <(compgen -P "$prefix" -d -- "$word") ;;
    files | address) mapfile -t COMPREPLY < <(compgen -P "$prefix" -f -- "$word") ;;
    verb_or_file) mapfile -t COMPREPLY < <(compgen -f -W "$words" -- "$word") ;;
  esac
  if [[ $candidates != words && $candidates != list ]]; then compopt -o filenames 2>/dev/null; fi
}
)";

std::string name_of(Candidates candidates) {
  switch (candidates) {
    case Candidates::words:
      return "words";
    case Candidates::list:
      return "list";
    case Candidates::files:
      return "files";
    case Candidates::folders:
      return "folders";
    case Candidates::address:
      return "address";
    case Candidates::none:
      break;
  }
  return "";
}

// The spellings after which a value of the option may follow: "-o | --output | --output=".
std::string pattern(const Option& option) {
  std::string joined = "--" + option.name + "=";
  if (option.value_is_optional()) return joined;
  const std::string both = "--" + option.name + " | " + joined;
  return option.letter == 0 ? both : fmt::format("-{} | {}", option.letter, both);
}

// The branches of `case $option` for the values of all options.
std::string value_branches(const Completion& completion) {
  std::string branches;
  std::vector<std::string> without;
  for (const CompletedOption& item : completion.options) {
    if (!item.option.takes_value()) continue;
    if (item.candidates == Candidates::none) {
      without.push_back(pattern(item.option));
      continue;
    }
    branches +=
        fmt::format("    {}) candidates={}", pattern(item.option), name_of(item.candidates));
    if (item.candidates == Candidates::words || item.candidates == Candidates::list) {
      branches += fmt::format(" words='{}'", item.words);
    }
    branches += " ;;\n";
  }
  if (without.empty()) return branches;
  return branches + fmt::format("    {}) return ;;\n", fmt::join(without, " | "));
}

std::string options_branch(const Completion& completion) {
  std::string always;
  std::string by_verb;
  for (const CompletedOption& item : completion.options) {
    if (item.always) {
      always += (always.empty() ? "--" : " --") + item.option.name;
    } else {
      by_verb += fmt::format(
          "        if [[ -z $verb || ' {} ' == *\" $verb \"* ]]; then words+=' --{}'; fi\n",
          fmt::join(item.verbs, " "), item.option.name);
    }
  }
  return fmt::format("        candidates=words words='{}'\n{}", always, by_verb);
}

std::string positional_branch(const Completion& completion) {
  const std::string files = completion.accepts_files ? "candidates=files" : "return";
  if (completion.verbs.empty()) return "        " + files + "\n";
  const bool or_file = completion.verb_is_optional && completion.accepts_files;
  return fmt::format("        if [[ -z $verb ]]; then candidates={} words='{}'; else {}; fi\n",
                     or_file ? "verb_or_file" : "words", completion.verb_names(" "), files);
}

// Looks for the verb among the words before the cursor.
std::string verb_search(const Completion& completion) {
  if (completion.verbs.empty()) return "";
  return fmt::format(
      "  local verb='' each\n"
      "  for each in \"${{COMP_WORDS[@]:1:COMP_CWORD - 1}}\"; do\n"
      "    case $each in {}) verb=$each ;; esac\n"
      "  done\n",
      completion.verb_names(" | "));
}

}  // namespace

std::string bash_completion(const Completion& completion) {
  const std::string function = "_" + completion.identifier;
  std::string script = completion.heading("bash") + "\n" + function;
  script += beginning;
  script += verb_search(completion) + "  case $option in\n";
  script += value_branches(completion);
  script += "    *)\n      if [[ $word == -* ]]; then\n" + options_branch(completion) +
            "      else\n" + positional_branch(completion) + "      fi\n      ;;\n  esac\n";
  script += end;
  return script + fmt::format("\ncomplete -F {} {}\n", function, completion.tool);
}

}  // namespace attn::cli
