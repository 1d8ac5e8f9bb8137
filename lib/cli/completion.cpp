#include "cli/completion.hpp"

#include <algorithm>
#include <set>
#include <stdexcept>

#include <fmt/format.h>

#include "cli/help.hpp"
#include "cli/wording.hpp"

namespace attn::cli {
namespace {

using Kind = Option::Kind;

Candidates candidates_for(const Option& option) {
  if (option.kind == Kind::assignment) return Candidates::address;
  if (option.kind == Kind::choices) return Candidates::list;
  if (option.placeholder == "FILE") return Candidates::files;
  if (option.placeholder == "DIR") return Candidates::folders;
  return option.values.empty() && !option.or_none ? Candidates::none : Candidates::words;
}

bool accepts_files(const Declaration::Impl& declaration) {
  const std::set<Role> roles = roles_of(declaration);
  return roles.count(Role::compare) > 0 || std::any_of(roles.begin(), roles.end(), has_input) ||
         declaration.words_placeholder.find("FILE") != std::string::npos;
}

Completion completion_of(const Declaration::Impl& declaration) {
  Completion all;
  all.tool = declaration.tool;
  all.identifier = declaration.tool;
  std::replace(all.identifier.begin(), all.identifier.end(), '-', '_');
  for (const Option& option : all_options(declaration)) {
    std::vector<std::string> words = option.values;
    if (option.or_none) words.emplace_back("none");
    all.options.push_back({option, candidates_for(option), fmt::format("{}", fmt::join(words, " ")),
                           option.verbs.empty(), without_empty(option.verbs)});
    all.options.back().option.help = first_sentence(option.help);
  }
  for (const Declaration::Verb& verb : declaration.verbs) {
    if (verb.name.empty()) continue;
    all.verbs.push_back(verb);
    all.verbs.back().help = first_sentence(verb.help);
  }
  all.verb_placeholder = declaration.verb_placeholder;
  all.verb_is_optional = verb_is_optional(declaration);
  all.accepts_files = accepts_files(declaration);
  all.words_placeholder = declaration.words_placeholder;
  return all;
}

}  // namespace

std::string Completion::verb_names(const std::string& separator) const {
  std::string names;
  for (const Declaration::Verb& verb : verbs) names += (names.empty() ? "" : separator) + verb.name;
  return names;
}

std::string Completion::heading(const std::string& shell) const {
  return fmt::format("# Completes the options of {0} in {1}; printed by {0} --completion={1}.\n",
                     tool, shell);
}

std::string completion_script(const Declaration& declaration, const std::string& shell) {
  const Completion completion = completion_of(declaration.impl());
  if (shell == "bash") return bash_completion(completion);
  if (shell == "zsh") return zsh_completion(completion);
  if (shell == "fish") return fish_completion(completion);
  throw std::logic_error("no completion script is known for " + shell);
}

}  // namespace attn::cli
