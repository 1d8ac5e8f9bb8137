#include "cli/help.hpp"

#include <fmt/format.h>
#include <boost/version.hpp>
#include <nlohmann/json.hpp>

#include "cli/option.hpp"
#include "cli/parse.hpp"
#include "cli/wording.hpp"
#include "cli/words.hpp"

namespace attn::cli {
namespace {

constexpr std::size_t columns = 80;
constexpr std::size_t label_columns = 24;  // the text beside a label begins here

std::string paragraph(const std::string& text) { return wrapped(text, columns, 0) + "\n"; }

// A label with its explanation beside it, or below it if the label is too long.
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

std::string usage_line(const Declaration::Impl& declaration) {
  const std::string line =
      fmt::format("Usage: {} {}", declaration.tool, fmt::join(usage_words(declaration), " "));
  const std::string indent(std::string("Usage: ").size(), ' ');
  return wrapped(line, columns, indent.size()) + "\n";
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

std::string examples_text(const Declaration::Impl& declaration) {
  if (declaration.examples.empty()) return "";
  std::string text = "\nExamples:\n";
  for (const Declaration::Impl::Example& example : declaration.examples) {
    text += "  " + example.command + "\n";
    if (example.explanation.empty()) continue;
    text += "      " + wrapped(example.explanation, columns - 6, 6) + "\n";
  }
  return text;
}

std::string statuses_text(const Declaration::Impl& declaration) {
  std::string text = "\nExit status:\n";
  for (const auto& [status, meaning] : exit_meanings(declaration)) {
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
  for (const Entry& verb : verb_entries(impl)) text += entry("  " + verb.label, verb.text);
  if (!impl.verbs.empty()) text += "\n";
  for (const Entry& word : positional_entries(impl)) text += entry("  " + word.label, word.text);

  return text + options_text(impl) + examples_text(impl) + statuses_text(impl);
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
