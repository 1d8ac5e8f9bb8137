#include "cli/help.hpp"

#include <algorithm>
#include <cctype>

#include <fmt/format.h>

#include "cli/option.hpp"
#include "cli/parse.hpp"
#include "cli/wording.hpp"

namespace attn::cli {
namespace {

std::string bold(const std::string& text) { return "\\fB" + roff_escaped(text) + "\\fR"; }
std::string italic(const std::string& text) { return "\\fI" + roff_escaped(text) + "\\fR"; }

std::string line(const std::string& text) { return text + "\n"; }

std::string upper(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](char c) { return std::toupper(static_cast<unsigned char>(c)); });
  return text;
}

// A macro takes its argument in double quotes.
std::string request(const std::string& macro, const std::string& argument) {
  return line("." + macro + " \"" + roff_escaped(argument) + "\"");
}

std::string tagged(const std::string& tag, const std::string& text) {
  return line(".TP") + line(tag) + line(roff_escaped(text));
}

std::string roff_paragraph(const std::string& text) {
  return line(".PP") + line(roff_escaped(text));
}

// Lines that are neither filled nor hyphenated.
std::string verbatim(const std::string& text) {
  return line(".PP") + line(".RS 4") + line(".EX") + line(roff_escaped(text)) + line(".EE") +
         line(".RE");
}

std::string option_tag(const Option& option) {
  std::string tag;
  if (option.letter != 0) tag = bold(std::string("-") + option.letter) + ", ";
  tag += bold("--" + option.name);
  if (option.value_is_optional()) return tag + "[=" + italic(option.placeholder) + "]";
  if (option.takes_value()) tag += " " + italic(option.placeholder);
  return tag;
}

std::string name_section(const Declaration::Impl& declaration) {
  std::string summary = declaration.summary;
  summary.front() = static_cast<char>(std::tolower(static_cast<unsigned char>(summary.front())));
  // In the plain form that whatis(1) reads.
  return line(".SH NAME") + line(roff_escaped(declaration.tool) + " \\- " + roff_escaped(summary));
}

std::string synopsis_section(const Declaration::Impl& declaration) {
  std::string text = bold(declaration.tool);
  for (const std::string& word : usage_words(declaration)) text += "\n" + italic(word);
  return line(".SH SYNOPSIS") + line(text);
}

std::string description_section(const Declaration::Impl& declaration) {
  std::string text = line(".SH DESCRIPTION");
  text += line(roff_escaped(as_sentence(declaration.summary)));
  for (const std::string& about : declaration.about) text += roff_paragraph(about);
  if (!declaration.formulas.empty()) {
    text += verbatim(fmt::format("{}", fmt::join(declaration.formulas, "\n")));
  }
  return text;
}

std::string verbs_section(const Declaration::Impl& declaration) {
  if (declaration.verbs.empty()) return "";
  std::string text = request("SH", upper(declaration.verb_placeholder) + "S");
  for (const Entry& verb : verb_entries(declaration)) text += tagged(bold(verb.label), verb.text);
  return text;
}

std::string options_section(const Declaration::Impl& declaration) {
  std::string text = line(".SH OPTIONS");
  for (const Entry& word : positional_entries(declaration)) {
    text += tagged(italic(word.label), word.text);
  }
  std::string heading;
  for (const Option& option : all_options(declaration)) {
    if (option.section != heading) {
      heading = option.section;
      text += request("SS", heading);
    }
    text += tagged(option_tag(option), explanation(option));
  }
  return text;
}

std::string dataset_list(const std::vector<Declaration::Impl::Dataset>& datasets) {
  std::string text;
  for (const Declaration::Impl::Dataset& dataset : datasets) {
    std::string tag = bold(dataset.name);
    if (!dataset.shape.empty()) tag += " " + roff_escaped(dataset.shape);
    text += tagged(tag, dataset.meaning);
  }
  return text;
}

std::string datasets_section(const Declaration::Impl& declaration) {
  if (declaration.datasets.empty()) return "";
  return line(".SH DATASETS") + dataset_list(declaration.datasets);
}

std::string results_section(const Declaration::Impl& declaration) {
  if (declaration.results.empty() && declaration.report_members.empty() &&
      declaration.columns.empty()) {
    return "";
  }
  std::string text = line(".SH RESULTS") + dataset_list(declaration.results);
  if (!declaration.columns.empty()) {
    text += request("SS", "Columns of the table") + dataset_list(declaration.columns);
  }
  if (declaration.report_members.empty()) return text;
  return text + request("SS", "Members of \"result\" in the JSON report") +
         dataset_list(declaration.report_members);
}

std::string statuses_section(const Declaration::Impl& declaration) {
  std::string text = request("SH", "EXIT STATUS");
  for (const auto& [status, meaning] : exit_meanings(declaration)) {
    text += tagged(bold(std::to_string(status)), meaning);
  }
  return text;
}

std::string examples_section(const Declaration::Impl& declaration) {
  if (declaration.examples.empty()) return "";
  std::string text = line(".SH EXAMPLES");
  for (const Declaration::Impl::Example& example : declaration.examples) {
    std::string explanation = example.explanation;
    if (!explanation.empty()) {
      explanation.front() =
          static_cast<char>(std::toupper(static_cast<unsigned char>(explanation.front())));
      const bool ended = explanation.back() == '.' || explanation.back() == '?';
      text += roff_paragraph(ended ? explanation : explanation + ":");
    }
    text += verbatim(example.command);
  }
  return text;
}

std::string references_section(const Declaration::Impl& declaration) {
  if (declaration.references.empty()) return "";
  std::string text = line(".SH REFERENCES");
  for (const std::string& reference : declaration.references) text += roff_paragraph(reference);
  return text;
}

}  // namespace

std::string roff_escaped(const std::string& text) {
  std::string escaped;
  bool begins_line = true;
  for (const char c : text) {
    if (begins_line && (c == '.' || c == '\'')) escaped += "\\&";
    begins_line = c == '\n';
    switch (c) {
      case '\\':
        escaped += "\\e";
        break;
      case '-':
        escaped += "\\-";
        break;
      case '"':
        escaped += "\\(dq";
        break;
      case '\'':
        escaped += "\\(aq";
        break;
      case '`':
        escaped += "\\(ga";
        break;
      case '^':
        escaped += "\\(ha";
        break;
      case '~':
        escaped += "\\(ti";
        break;
      default:
        escaped += c;
    }
  }
  return escaped;
}

std::string man_page(const Declaration& declaration) {
  const Declaration::Impl& impl = declaration.impl();
  // The first line names the encoding for preconv(1).
  return line(".\\\" -*- coding: UTF-8 -*-") +
         line(fmt::format(".TH \"{}\" 1 \"\" \"attnkit {}\" \"attnkit\"",
                          roff_escaped(upper(impl.tool)), version())) +
         // Neither justified nor hyphenated: formulas and names stay as they are. groff needs both
         // ways of switching hyphenation off, for the first paragraph and for those after it.
         line(".ad l") + line(".nr HY 0") + line(".nh") + name_section(impl) +
         synopsis_section(impl) + description_section(impl) + verbs_section(impl) +
         options_section(impl) + datasets_section(impl) + results_section(impl) +
         statuses_section(impl) + examples_section(impl) + references_section(impl) +
         line(".SH SEE ALSO") + line(".BR attnkit (7)");
}

}  // namespace attn::cli
