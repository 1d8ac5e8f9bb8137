#include "cli/completion.hpp"

#include <algorithm>
#include <set>
#include <stdexcept>

#include <fmt/format.h>

#include "cli/completion_table.hpp"

namespace attn::cli {

using Kind = Option::Kind;

Candidates candidates_for(const Option& option) {
  if (option.kind == Kind::assignment) return Candidates::address;
  if (option.kind == Kind::choices) return Candidates::list;
  if (option.placeholder == "FILE") return Candidates::files;
  if (option.placeholder == "DIR") return Candidates::folders;
  return candidate_words(option).empty() ? Candidates::none : Candidates::words;
}

std::vector<std::string> candidate_words(const Option& option) {
  std::vector<std::string> words = option.values;
  if (option.or_none) words.emplace_back("none");
  return words;
}

bool accepts_files(const Declaration::Impl& declaration) {
  const std::set<Role> roles = roles_of(declaration);
  return roles.count(Role::compare) > 0 || std::any_of(roles.begin(), roles.end(), has_input) ||
         declaration.words_placeholder.find("FILE") != std::string::npos;
}

std::string identifier(const std::string& tool) {
  std::string name = tool;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

std::string script_heading(const std::string& tool, const std::string& shell) {
  return fmt::format("# Completes the options of {0} in {1}; printed by {0} --completion={1}.\n",
                     tool, shell);
}

std::string completion_script(const Declaration& declaration, const std::string& shell) {
  if (shell == "bash") return bash_completion(declaration.impl());
  if (shell == "zsh") return zsh_completion(declaration.impl());
  if (shell == "fish") return fish_completion(declaration.impl());
  throw std::logic_error("no completion script is known for " + shell);
}

}  // namespace attn::cli
