#include <string_view>

#include <fmt/format.h>

#include "cli/completion_table.hpp"

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
std::string value_branches(const Declaration::Impl& declaration) {
  std::string branches;
  std::vector<std::string> without;
  for (const Option& option : all_options(declaration)) {
    if (!option.takes_value()) continue;
    const Candidates candidates = candidates_for(option);
    if (candidates == Candidates::none) {
      without.push_back(pattern(option));
      continue;
    }
    branches += fmt::format("    {}) candidates={}", pattern(option), name_of(candidates));
    if (candidates == Candidates::words || candidates == Candidates::list) {
      branches += fmt::format(" words='{}'", fmt::join(candidate_words(option), " "));
    }
    branches += " ;;\n";
  }
  if (without.empty()) return branches;
  return branches + fmt::format("    {}) return ;;\n", fmt::join(without, " | "));
}

std::string options_branch(const Declaration::Impl& declaration) {
  std::string always;
  std::string by_verb;
  for (const Option& option : all_options(declaration)) {
    if (option.verbs.empty()) {
      always += (always.empty() ? "--" : " --") + option.name;
    } else {
      by_verb += fmt::format(
          "        if [[ -z $verb || ' {} ' == *\" $verb \"* ]]; then words+=' --{}'; fi\n",
          fmt::join(without_empty(option.verbs), " "), option.name);
    }
  }
  return fmt::format("        candidates=words words='{}'\n{}", always, by_verb);
}

std::string positional_branch(const Declaration::Impl& declaration) {
  const std::string files = accepts_files(declaration) ? "candidates=files" : "return";
  if (declaration.verbs.empty()) return "        " + files + "\n";
  const bool or_file = verb_is_optional(declaration) && accepts_files(declaration);
  return fmt::format("        if [[ -z $verb ]]; then candidates={} words='{}'; else {}; fi\n",
                     or_file ? "verb_or_file" : "words", fmt::join(verb_names(declaration), " "),
                     files);
}

// Looks for the verb among the words before the cursor.
std::string verb_search(const Declaration::Impl& declaration) {
  if (declaration.verbs.empty()) return "";
  return fmt::format(
      "  local verb='' each\n"
      "  for each in \"${{COMP_WORDS[@]:1:COMP_CWORD - 1}}\"; do\n"
      "    case $each in {}) verb=$each ;; esac\n"
      "  done\n",
      fmt::join(verb_names(declaration), " | "));
}

}  // namespace

std::string bash_completion(const Declaration::Impl& declaration) {
  const std::string function = "_" + identifier(declaration.tool);
  std::string script = script_heading(declaration.tool, "bash") + "\n" + function;
  script += beginning;
  script += verb_search(declaration) + "  case $option in\n";
  script += value_branches(declaration);
  script += "    *)\n      if [[ $word == -* ]]; then\n" + options_branch(declaration) +
            "      else\n" + positional_branch(declaration) + "      fi\n      ;;\n  esac\n";
  script += end;
  return script + fmt::format("\ncomplete -F {} {}\n", function, declaration.tool);
}

}  // namespace attn::cli
