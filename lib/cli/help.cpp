#include "cli/help.hpp"

#include <algorithm>
#include <set>

#include <fmt/format.h>
#include <boost/version.hpp>
#include <nlohmann/json.hpp>

#include "cli/option.hpp"
#include "cli/parse.hpp"
#include "cli/values.hpp"
#include "cli/words.hpp"

namespace attn::cli {
namespace {

using Kind = Option::Kind;

constexpr std::size_t columns = 80;
constexpr std::size_t label_columns = 24;  // where the text beside a label begins

std::string paragraph(const std::string& text) { return wrapped(text, columns, 0) + "\n"; }

// A label with its explanation beside it, or below where the label is too long.
std::string entry(const std::string& label, const std::string& text) {
  std::string lines = label;
  if (width(label) + 2 > label_columns) {
    lines += "\n" + std::string(label_columns, ' ');
  } else {
    lines.append(label_columns - width(label), ' ');
  }
  return lines + wrapped(text, columns - label_columns, label_columns) + "\n";
}

std::string label(const Option& option) {
  std::string text = option.letter != 0 ? fmt::format("  -{}, ", option.letter) : "      ";
  text += "--" + option.name;
  if (option.value_is_optional()) return text + "[=" + option.placeholder + "]";
  if (option.takes_value()) text += " " + option.placeholder;
  return text;
}

std::string as_sentence(std::string text) {
  if (!text.empty() && text.back() != '.') text += '.';
  return text;
}

std::string explanation(const Option& option) {
  std::string text = as_sentence(option.help);
  const auto append = [&](const std::string& sentence) {
    if (!text.empty()) text += ' ';
    text += sentence;
  };
  const bool words = option.kind == Kind::choice || option.kind == Kind::optional_choice;
  if (words) append(fmt::format("One of {}", fmt::join(option.values, ", ")));
  if (option.kind == Kind::choices) {
    append(fmt::format("Any of {}, separated by commas", fmt::join(option.values, ", ")));
  }
  const bool listed = words || option.kind == Kind::choices;
  const bool ranged = option.kind == Kind::number || option.kind == Kind::numbers ||
                      option.kind == Kind::integer || option.kind == Kind::integers;
  const bool shows_range = ranged && expectation(option) != "a finite number";
  if (shows_range) {
    std::string expected = expectation(option);
    expected.front() = static_cast<char>(expected.front() - 'a' + 'A');
    append(expected);
  }
  const bool open = listed || shows_range;
  if (option.fallback) {
    if (open) {
      text += fmt::format(" (default {}).", *option.fallback);
    } else {
      append(fmt::format("Default {}.", *option.fallback));
    }
  } else if (open) {
    text += '.';
  }
  if (!option.verbs.empty()) {
    append(fmt::format("Only with {}.", fmt::join(option.verbs, ", ")));
  }
  return text;
}

std::set<Role> roles(const Declaration::Impl& declaration) {
  std::set<Role> all;
  for (const Declaration::Verb& verb : declaration.verbs)
    all.insert(declaration.role_of(verb.name));
  if (all.empty()) all.insert(declaration.role);
  return all;
}

bool any_has_input(const Declaration::Impl& declaration) {
  const std::set<Role> all = roles(declaration);
  return std::any_of(all.begin(), all.end(), has_input);
}

std::string usage_line(const Declaration::Impl& declaration) {
  std::string line = "Usage: " + declaration.tool;
  if (!declaration.verbs.empty()) line += " " + declaration.verb_placeholder;
  line += " [options]";
  if (!declaration.words_placeholder.empty()) line += " " + declaration.words_placeholder;
  if (any_has_input(declaration)) line += " [INPUT]";
  const std::set<Role> all = roles(declaration);
  if (std::any_of(all.begin(), all.end(), has_output)) line += " [-o OUTPUT]";
  const std::string indent(std::string("Usage: ").size(), ' ');
  return wrapped(line, columns, indent.size()) + "\n";
}

// What INPUT and OUTPUT are where they are left out.
std::string streams_text(const Declaration::Impl& declaration) {
  std::string text;
  const std::set<Role> all = roles(declaration);
  const auto has = [&](Role role) { return all.count(role) > 0; };
  if (has(Role::transform) || has(Role::report) || has(Role::inspect)) {
    text +=
        entry("  INPUT",
              "Bundle to read: FILE[:/group], or \"-\", a stream on standard input; the default "
              "where no -i is given.");
  } else if (has(Role::optional_input)) {
    text +=
        entry("  INPUT", "Bundle to read: FILE[:/group], or \"-\", a stream on standard input.");
  }
  if (has(Role::report)) {
    text += entry("  OUTPUT",
                  has(Role::transform)
                      ? "Bundle to write; the default is a stream on standard output, except where "
                        "a report is printed there."
                      : "Bundle to write, besides the report; the default is none.");
  } else if (std::any_of(all.begin(), all.end(), has_output)) {
    text += entry("  OUTPUT", "Bundle to write; the default is a stream on standard output.");
  }
  return text;
}

std::string options_text(const Declaration::Impl& declaration) {
  std::string text;
  std::string section;
  for (const Option& option : all_options(declaration)) {
    if (option.section != section) {
      section = option.section;
      text += "\n" + section + ":\n";
    }
    text += entry(label(option), explanation(option));
  }
  return text;
}

std::string statuses_text(const Declaration::Impl& declaration) {
  std::map<int, std::string> meanings = {
      {0, "done"},
      {1, "ran, and the answer is no"},
      {2, "the command line is wrong"},
      {3, "an input is missing, unreadable, or of a wrong type, shape or value"},
      {4, "numerically impossible"},
      {5, "the output cannot be written, or exists"},
      {6, "does not fit into the memory allowed"},
  };
  for (const auto& [status, meaning] : declaration.exit_statuses) meanings[status] = meaning;
  std::string text = "\nExit status:\n";
  for (const auto& [status, meaning] : meanings) {
    if (meaning.empty()) continue;
    text += fmt::format("  {}  {}\n", status, wrapped(meaning, columns - 5, 5));
  }
  return text;
}

}  // namespace

std::string help_text(const Declaration& declaration) {
  const Declaration::Impl& impl = declaration.impl();
  std::string text = usage_line(impl) + "\n" + paragraph(as_sentence(impl.summary));
  for (const std::string& about : impl.about) text += "\n" + paragraph(about);

  text += "\n";
  for (const Declaration::Verb& verb : impl.verbs) text += entry("  " + verb.name, verb.help);
  if (!impl.verbs.empty()) text += "\n";
  if (!impl.words_placeholder.empty()) {
    text += entry("  " + impl.words_placeholder, impl.words_help);
  }
  text += streams_text(impl) + options_text(impl);

  if (!impl.examples.empty()) text += "\nExamples:\n";
  for (const auto& [command, says] : impl.examples) {
    text += "  " + command + "\n";
    if (!says.empty()) text += "      " + wrapped(says, columns - 6, 6) + "\n";
  }
  return text + statuses_text(impl);
}

std::string version_text(const Declaration& declaration,
                         const std::vector<std::string>& libraries) {
  std::string text = declaration.impl().tool + " " + version() + "\n";
  for (const std::string& library : libraries) text += library + "\n";
  text += fmt::format("Boost {}.{}.{}\n", BOOST_VERSION / 100000, BOOST_VERSION / 100 % 1000,
                      BOOST_VERSION % 100);
  text += fmt::format("fmt {}.{}.{}\n", FMT_VERSION / 10000, FMT_VERSION / 100 % 100,
                      FMT_VERSION % 100);
  text += fmt::format("nlohmann-json {}.{}.{}\n", NLOHMANN_JSON_VERSION_MAJOR,
                      NLOHMANN_JSON_VERSION_MINOR, NLOHMANN_JSON_VERSION_PATCH);
  return text;
}

}  // namespace attn::cli
