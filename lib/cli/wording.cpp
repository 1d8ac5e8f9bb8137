#include "cli/wording.hpp"

#include <algorithm>
#include <set>
#include <string_view>

#include <fmt/format.h>

#include "cli/values.hpp"

namespace attn::cli {
namespace {

using Kind = Option::Kind;

constexpr const char* input_address =
    "Bundle to read: FILE[:/group], or \"-\" for a stream on standard input";

bool any_has(const std::set<Role>& roles, bool (*has)(Role)) {
  return std::any_of(roles.begin(), roles.end(), has);
}

// Whether both are a name and a number, such as view8 and view9.
bool is_next(std::string_view word, std::string_view next) {
  const auto stem = [](std::string_view of) {
    return of.substr(0, of.find_last_not_of("0123456789") + 1);
  };
  const std::string_view name = stem(word);
  if (name.empty() || name.size() == word.size() || name != stem(next)) return false;
  const auto number = [&](std::string_view of) { return of.substr(name.size()); };
  // Numbers of more digits are not names of a series.
  if (number(word).size() > 3) return false;
  return number(next) == std::to_string(std::stoi(std::string(number(word))) + 1);
}

// "out, view1 ... view8": of four and more numbered words the first and the last.
std::string listed(const std::vector<std::string>& words) {
  constexpr std::size_t least = 4;
  std::string text;
  for (std::size_t first = 0; first < words.size();) {
    std::size_t last = first;
    while (last + 1 < words.size() && is_next(words[last], words[last + 1])) ++last;
    if (last - first + 1 < least) last = first;
    text += (text.empty() ? "" : ", ") + words[first];
    if (last > first) text += " ... " + words[last];
    first = last + 1;
  }
  return text;
}

// "One of unas, dnas", "A number > 0"; empty for options that accept any text or number.
std::string accepted_values(const Option& option) {
  switch (option.kind) {
    case Kind::choice:
    case Kind::optional_choice:
      return fmt::format("One of {}", listed(option.values));
    case Kind::choices:
      return fmt::format("Any of {}, separated by commas", listed(option.values));
    case Kind::number:
    case Kind::numbers:
    case Kind::integer:
    case Kind::integers: {
      std::string expected = expectation(option);
      if (expected == "a finite number") return "";
      expected.front() = static_cast<char>(expected.front() - 'a' + 'A');
      return expected;
    }
    default:
      return "";
  }
}

// "default 10", "default: as recorded in the bundle, else 10"; empty without a default.
std::string default_text(const Option& option) {
  if (option.default_words.empty()) {
    return option.fallback ? "default " + *option.fallback : "";
  }
  const std::string colon = option.default_words.find(' ') == std::string::npos ? " " : ": ";
  const std::string last = option.fallback ? ", else " + *option.fallback : "";
  return "default" + colon + option.default_words + last;
}

// "with step, check", "without a verb".
std::string verbs_text(const std::vector<std::string>& verbs) {
  const std::vector<std::string> named = without_empty(verbs);
  if (named.empty()) return "without a verb";
  const std::string with = fmt::format("with {}", fmt::join(named, ", "));
  return named.size() < verbs.size() ? with + ", or without a verb" : with;
}

}  // namespace

std::string as_sentence(std::string text) {
  if (!text.empty() && text.back() != '.') text += '.';
  return text;
}

std::string first_sentence(const std::string& text) {
  const std::string sentence = text.substr(0, text.find(". "));
  return !sentence.empty() && sentence.back() == '.' ? sentence.substr(0, sentence.size() - 1)
                                                     : sentence;
}

std::string explanation(const Option& option) {
  std::string text = as_sentence(option.help);
  const auto append = [&](const std::string& sentence) {
    if (!text.empty()) text += ' ';
    text += sentence;
  };
  const std::string accepted = accepted_values(option);
  const std::string usual = default_text(option);
  if (!accepted.empty()) {
    append(accepted);
    text += usual.empty() ? "." : " (" + usual + ").";
  } else if (!usual.empty()) {
    append("D" + usual.substr(1) + ".");
  }
  if (!option.verbs.empty()) append("Only " + verbs_text(option.verbs) + ".");
  return text;
}

std::vector<std::string> usage_words(const Declaration::Impl& declaration) {
  std::vector<std::string> words;
  if (verb_is_optional(declaration)) {
    words.push_back("[" + declaration.verb_placeholder + "]");
  } else if (!declaration.verbs.empty()) {
    words.push_back(declaration.verb_placeholder);
  }
  words.emplace_back("[options]");
  if (!declaration.words_placeholder.empty()) words.push_back(declaration.words_placeholder);
  const std::set<Role> roles = roles_of(declaration);
  if (any_has(roles, has_input)) {
    words.emplace_back(declaration.several_inputs ? "[INPUT...]" : "[INPUT]");
  }
  if (roles.count(Role::continued) > 0) {
    words.emplace_back("-o OUTPUT");
  } else if (any_has(roles, has_output)) {
    words.emplace_back("[-o OUTPUT]");
  }
  return words;
}

std::vector<Entry> verb_entries(const Declaration::Impl& declaration) {
  std::vector<Entry> entries;
  for (const Declaration::Verb& verb : declaration.verbs) {
    const std::string none = "(no " + declaration.verb_placeholder + ")";
    entries.push_back({verb.name.empty() ? none : verb.name, verb.help});
  }
  return entries;
}

std::vector<Entry> positional_entries(const Declaration::Impl& declaration) {
  std::vector<Entry> entries;
  if (!declaration.words_placeholder.empty()) {
    entries.push_back({declaration.words_placeholder, declaration.words_help});
  }
  const std::set<Role> roles = roles_of(declaration);
  const auto has = [&](Role role) { return roles.count(role) > 0; };
  if (has(Role::transform) || has(Role::report) || has(Role::inspect)) {
    entries.push_back(
        {"INPUT",
         std::string(input_address) + ". \"-\" is the default unless -i is given." +
             (declaration.several_inputs ? " Several INPUTs make one report, without a bundle."
                                         : "")});
  } else if (has(Role::optional_input)) {
    entries.push_back({"INPUT", std::string(input_address) + "."});
  }
  if (has(Role::report)) {
    entries.push_back({"OUTPUT", has(Role::transform)
                                     ? "Bundle to write. By default it is a stream on standard "
                                       "output, except for verbs that print a report there."
                                     : "Bundle to write in addition to the report; none by "
                                       "default."});
  } else if (has(Role::continued)) {
    entries.push_back(
        {"OUTPUT",
         "Bundle to write, a file. If the same command wrote it, the run continues from it."});
  } else if (any_has(roles, has_output)) {
    entries.push_back({"OUTPUT", "Bundle to write; by default it is a stream on standard output."});
  }
  return entries;
}

std::map<int, std::string> exit_meanings(const Declaration::Impl& declaration) {
  std::map<int, std::string> meanings = {
      {0, "success"},
      {1, "the tool ran, and the answer is no"},
      {2, "the command line is wrong"},
      {3, "an input is missing or unreadable, or has a wrong type, shape or value"},
      {4, "the computation is numerically impossible"},
      {5, "the output exists already, or cannot be written"},
      {6, "the computation does not fit into the memory allowed"},
  };
  for (const auto& [status, meaning] : declaration.exit_statuses) {
    if (meaning.empty()) {
      meanings.erase(status);
    } else {
      meanings[status] = meaning;
    }
  }
  return meanings;
}

}  // namespace attn::cli
