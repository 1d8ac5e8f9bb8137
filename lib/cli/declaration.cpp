#include <algorithm>
#include <stdexcept>

#include <fmt/format.h>

#include "attnkit/error.hpp"
#include "cli/option.hpp"
#include "cli/values.hpp"

namespace attn::cli {
namespace {

using Kind = Option::Kind;

template <class Values>
std::optional<std::string> joined(const Values& values) {
  if (values.empty()) return std::nullopt;
  return fmt::format("{}", fmt::join(values, ","));
}

void add(Declaration::Impl& impl, Option option) {
  for (const Option& other : all_options(impl)) {
    if (other.name == option.name) {
      throw std::logic_error("option --" + option.name + " is declared twice");
    }
  }
  try {
    if (option.fallback) parse_value(option, *option.fallback);
  } catch (const Error& error) {
    throw std::logic_error(std::string("fallback of an option: ") + error.what());
  }
  if (option.section.empty()) option.section = impl.section;
  option.verbs = impl.for_verbs;
  impl.options.push_back(std::move(option));
}

void require_known(const Declaration::Impl& impl, const std::vector<std::string>& verbs) {
  for (const std::string& verb : verbs) {
    const bool known = std::any_of(impl.verbs.begin(), impl.verbs.end(),
                                   [&](const auto& other) { return other.name == verb; });
    if (!known) throw std::logic_error("an option names the unknown verb " + verb);
  }
}

}  // namespace

Declaration::Declaration(std::string tool, std::string summary, Role role)
    : impl_(std::make_shared<Impl>()) {
  impl_->tool = std::move(tool);
  impl_->summary = std::move(summary);
  impl_->role = role;
  if (role == Role::compare) {
    words("A B", "The two bundles to compare.", 2, 2);
  }
}

const std::string& Declaration::tool() const { return impl_->tool; }

bool Declaration::has_option(std::string_view name) const {
  return std::any_of(impl_->options.begin(), impl_->options.end(),
                     [&](const Option& option) { return option.name == name; });
}

Declaration& Declaration::section(std::string title) {
  impl_->section = std::move(title);
  return *this;
}

Declaration& Declaration::flag(std::string name, std::string help) {
  add(*impl_, {.name = std::move(name), .kind = Kind::flag, .help = std::move(help)});
  return *this;
}

Declaration& Declaration::text(std::string name, std::string placeholder, std::string help,
                               std::optional<std::string> fallback) {
  add(*impl_, {.name = std::move(name),
               .kind = Kind::text,
               .placeholder = std::move(placeholder),
               .help = std::move(help),
               .fallback = std::move(fallback)});
  return *this;
}

Declaration& Declaration::texts(std::string name, std::string placeholder, std::string help) {
  add(*impl_, {.name = std::move(name),
               .kind = Kind::texts,
               .placeholder = std::move(placeholder),
               .help = std::move(help)});
  return *this;
}

Declaration& Declaration::help_topic(std::string name, std::function<std::string()> text) {
  impl_->topic = Impl::Topic{std::move(name), std::move(text)};
  return *this;
}

Declaration& Declaration::choice(std::string name, std::vector<std::string> values,
                                 std::string help, std::optional<std::string> fallback) {
  add(*impl_, {.name = std::move(name),
               .kind = Kind::choice,
               .placeholder = "WORD",
               .help = std::move(help),
               .values = std::move(values),
               .fallback = std::move(fallback)});
  return *this;
}

Declaration& Declaration::choices(std::string name, std::vector<std::string> values,
                                  std::string help, std::optional<std::string> fallback) {
  add(*impl_, {.name = std::move(name),
               .kind = Kind::choices,
               .placeholder = "LIST",
               .help = std::move(help),
               .values = std::move(values),
               .fallback = std::move(fallback)});
  return *this;
}

Declaration& Declaration::number(std::string name, std::string placeholder, std::string help,
                                 Range range, std::optional<double> fallback) {
  Option option{.name = std::move(name),
                .kind = Kind::number,
                .placeholder = std::move(placeholder),
                .help = std::move(help),
                .range = range};
  if (fallback) option.fallback = fmt::format("{}", *fallback);
  add(*impl_, std::move(option));
  return *this;
}

Declaration& Declaration::numbers(std::string name, std::string placeholder, std::string help,
                                  Range range, const std::vector<double>& fallback) {
  add(*impl_, {.name = std::move(name),
               .kind = Kind::numbers,
               .placeholder = std::move(placeholder),
               .help = std::move(help),
               .range = range,
               .fallback = joined(fallback)});
  return *this;
}

Declaration& Declaration::integer(std::string name, std::string placeholder, std::string help,
                                  Index low, Index high, std::optional<Index> fallback) {
  Option option{.name = std::move(name),
                .kind = Kind::integer,
                .placeholder = std::move(placeholder),
                .help = std::move(help),
                .low = low,
                .high = high};
  if (fallback) option.fallback = fmt::format("{}", *fallback);
  add(*impl_, std::move(option));
  return *this;
}

Declaration& Declaration::size(std::string name, std::string placeholder, std::string help,
                               std::string fallback) {
  add(*impl_, Option{.name = std::move(name),
                     .kind = Kind::size,
                     .placeholder = std::move(placeholder),
                     .help = std::move(help),
                     .fallback = std::move(fallback)});
  return *this;
}

Declaration& Declaration::integers(std::string name, std::string placeholder, std::string help,
                                   Index low, Index high, const std::vector<Index>& fallback) {
  add(*impl_, {.name = std::move(name),
               .kind = Kind::integers,
               .placeholder = std::move(placeholder),
               .help = std::move(help),
               .low = low,
               .high = high,
               .fallback = joined(fallback)});
  return *this;
}

Declaration& Declaration::points(std::string name, std::string placeholder, std::string help) {
  add(*impl_, {.name = std::move(name),
               .kind = Kind::points,
               .placeholder = std::move(placeholder),
               .help = std::move(help)});
  return *this;
}

Declaration& Declaration::optional_choice(std::string name, std::vector<std::string> values,
                                          std::string help) {
  add(*impl_, {.name = std::move(name),
               .kind = Kind::optional_choice,
               .placeholder = "WORD",
               .help = std::move(help),
               .values = std::move(values)});
  return *this;
}

Declaration& Declaration::letter(char letter) {
  for (const Option& other : all_options(*impl_)) {
    if (other.letter == letter) {
      throw std::logic_error(std::string("option -") + letter + " is declared twice");
    }
  }
  impl_->options.back().letter = letter;
  return *this;
}

Declaration& Declaration::seeded() {
  add(*impl_, {.name = "seed",
               .kind = Kind::seed,
               .placeholder = "N",
               .help = "Seed of the random numbers; equal seeds produce equal numbers.",
               .fallback = "0"});
  return *this;
}

Declaration& Declaration::several_inputs() {
  impl_->several_inputs = true;
  return *this;
}

Declaration& Declaration::bf16() {
  impl_->bf16 = true;
  return *this;
}

Declaration& Declaration::allow_external() {
  Option option = external_links_option();
  option.section = common_heading;
  add(*impl_, std::move(option));
  return *this;
}

Declaration& Declaration::named_inputs(std::string help) {
  add(*impl_, {.name = "input",
               .letter = 'i',
               .kind = Option::Kind::assignment,
               .placeholder = "NAME=ADDRESS",
               .help = std::move(help)});
  return *this;
}

Declaration& Declaration::words(std::string placeholder, std::string help, int count_low,
                                int count_high) {
  impl_->words_placeholder = std::move(placeholder);
  impl_->words_help = std::move(help);
  impl_->words_low = count_low;
  impl_->words_high = count_high;
  return *this;
}

Declaration& Declaration::verbs(std::string placeholder, std::vector<Verb> verbs) {
  impl_->verb_placeholder = std::move(placeholder);
  impl_->verbs = std::move(verbs);
  return *this;
}

Declaration& Declaration::only_with(std::vector<std::string> verbs) {
  if (impl_->options.empty()) throw std::logic_error("only_with() before any option");
  require_known(*impl_, verbs);
  impl_->options.back().verbs = std::move(verbs);
  return *this;
}

Declaration& Declaration::for_verbs(std::vector<std::string> verbs) {
  require_known(*impl_, verbs);
  impl_->for_verbs = std::move(verbs);
  return *this;
}

Declaration& Declaration::synonym(const std::string& word, const std::string& value) {
  if (impl_->options.empty()) throw std::logic_error("synonym() before any option");
  impl_->options.back().synonyms[word] = value;
  return *this;
}

Declaration& Declaration::or_none() {
  if (impl_->options.empty()) throw std::logic_error("or_none() before any option");
  impl_->options.back().or_none = true;
  return *this;
}

Declaration& Declaration::default_words(std::string words) {
  if (impl_->options.empty()) throw std::logic_error("default_words() before any option");
  impl_->options.back().default_words = std::move(words);
  return *this;
}

Declaration& Declaration::example(std::string command, std::string explanation) {
  impl_->examples.push_back({std::move(command), std::move(explanation)});
  return *this;
}

Declaration& Declaration::about(std::string paragraph) {
  impl_->about.push_back(std::move(paragraph));
  return *this;
}

Declaration& Declaration::exit_status(int status, std::string meaning) {
  impl_->exit_statuses[status] = std::move(meaning);
  return *this;
}

Declaration& Declaration::formula(std::string line) {
  impl_->formulas.push_back(std::move(line));
  return *this;
}

Declaration& Declaration::dataset(std::string name, std::string shape, std::string meaning) {
  impl_->datasets.push_back({std::move(name), std::move(shape), std::move(meaning)});
  return *this;
}

Declaration& Declaration::result(std::string name, std::string shape, std::string meaning) {
  impl_->results.push_back({std::move(name), std::move(shape), std::move(meaning)});
  return *this;
}

Declaration& Declaration::report_member(std::string name, std::string meaning) {
  impl_->report_members.push_back({std::move(name), "", std::move(meaning)});
  return *this;
}

Declaration& Declaration::column(std::string name, std::string meaning) {
  impl_->columns.push_back({std::move(name), "", std::move(meaning)});
  return *this;
}

Declaration& Declaration::reference(std::string citation) {
  impl_->references.push_back(std::move(citation));
  return *this;
}

Role Declaration::Impl::role_of(const std::string& verb) const {
  for (const Verb& candidate : verbs) {
    if (candidate.name == verb) return candidate.role.value_or(role);
  }
  return role;
}

std::set<Role> roles_of(const Declaration::Impl& declaration) {
  std::set<Role> roles;
  for (const Declaration::Verb& verb : declaration.verbs) {
    roles.insert(declaration.role_of(verb.name));
  }
  if (roles.empty()) roles.insert(declaration.role);
  return roles;
}

std::vector<std::string> without_empty(std::vector<std::string> verbs) {
  verbs.erase(std::remove(verbs.begin(), verbs.end(), ""), verbs.end());
  return verbs;
}

std::vector<std::string> verb_names(const Declaration::Impl& declaration) {
  std::vector<std::string> names;
  for (const Declaration::Verb& verb : declaration.verbs) names.push_back(verb.name);
  return without_empty(std::move(names));
}

bool verb_is_optional(const Declaration::Impl& declaration) {
  return verb_names(declaration).size() < declaration.verbs.size();
}

bool Option::goes_with(const std::string& verb) const {
  return verbs.empty() || std::find(verbs.begin(), verbs.end(), verb) != verbs.end();
}

}  // namespace attn::cli
