#include "cli/tokens.hpp"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <boost/program_options/cmdline.hpp>
#include <boost/program_options/errors.hpp>
#include <boost/program_options/options_description.hpp>
#include <boost/program_options/parsers.hpp>
#include <boost/program_options/value_semantic.hpp>

#include "attnkit/error.hpp"
#include "cli/other_options.hpp"
#include "cli/values.hpp"
#include "cli/words.hpp"

namespace attn::cli {
namespace {

namespace po = boost::program_options;

const Option* find(const std::vector<Option>& options, std::string_view name) {
  for (const Option& option : options) {
    if (option.name == name) return &option;
  }
  return nullptr;
}

[[noreturn]] void unknown(const std::string& shown, std::string_view name,
                          const std::vector<Option>& options) {
  std::vector<std::string> names;
  for (const Option& option : options) names.push_back(option.name);
  std::string hint = hint_on_other_name(name, names);
  if (hint.empty() && find(options, name) == nullptr) hint = hint_on_other_tools(name);
  if (const std::string near = nearest(name, names); !near.empty()) {
    hint = "did you mean --" + near + "?" + (hint.empty() ? "" : " " + hint);
  }
  throw Error(Failure::usage, "unknown option " + shown, hint);
}

// Refuses "—top", whose dash is that of a text editor, unless it names a file.
void refuse_long_dash(const std::string& word, const std::vector<Option>& options) {
  std::string_view rest = word;
  for (const std::string_view dash : {"—", "–", "−"}) {
    if (!word.starts_with(dash)) continue;
    rest.remove_prefix(dash.size());
    rest.remove_prefix(std::min(rest.find_first_not_of('-'), rest.size()));
    const Option* const meant = find(options, rest.substr(0, rest.find('=')));
    std::error_code none;
    if (meant == nullptr || std::filesystem::exists(word, none)) return;
    throw Error(Failure::usage, "unknown option " + word.substr(0, word.find('=')),
                "its dash is not -: --" + meant->name);
  }
}

// An option with an optional value is declared to Boost as two options: "json", which takes no
// value, and "json=", which takes one and cannot be typed. As one option, a bare --json would take
// the next word as its value.
po::options_description boost_table(const std::vector<Option>& options) {
  po::options_description table;
  for (const Option& option : options) {
    std::string names = option.name;
    if (option.letter != 0) names += std::string(",") + option.letter;
    if (option.takes_value() && !option.value_is_optional()) {
      table.add_options()(names.c_str(), po::value<std::string>(), "");
    } else {
      table.add_options()(names.c_str(), "");
    }
    if (option.value_is_optional()) {
      table.add_options()((option.name + "=").c_str(), po::value<std::string>(), "");
    }
  }
  return table;
}

std::pair<std::string, std::string> optional_value(const std::string& word,
                                                   const std::vector<Option>& options) {
  const std::size_t equals = word.find('=');
  if (word.rfind("--", 0) != 0 || equals == std::string::npos) return {};
  const Option* option = find(options, std::string_view(word).substr(2, equals - 2));
  if (option == nullptr) return {};
  if (!option->takes_value()) {
    const std::string value = word.substr(equals + 1);
    throw Error(Failure::usage, "--" + option->name + " takes no value",
                is_switch_word(value) ? hint_on_switch(*option, value) : "");
  }
  if (!option->value_is_optional()) return {};
  if (equals + 1 == word.size()) {
    throw Error(Failure::usage, "--" + option->name + "= needs a value");
  }
  return {option->name + "=", word.substr(equals + 1)};
}

// "-:/layer3" is an address in standard input, not an option called ':'.
std::vector<po::option> stream_address(std::vector<std::string>& words) {
  if (words.front().rfind("-:", 0) != 0 && words.front().rfind("-[", 0) != 0) return {};
  po::option word;
  word.value = word.original_tokens = {words.front()};
  words.erase(words.begin());
  return {word};
}

[[noreturn]] void syntax(const po::error_with_option_name& error,
                         const std::vector<Option>& options) {
  const std::string name = error.get_option_name();
  const Option* const option =
      name.starts_with("--") ? find(options, std::string_view(name).substr(2)) : nullptr;
  const auto* invalid = dynamic_cast<const po::invalid_syntax*>(&error);
  if (invalid != nullptr) {
    switch (invalid->kind()) {
      case po::invalid_syntax::missing_parameter:
      case po::invalid_syntax::empty_adjacent_parameter:
        throw Error(Failure::usage,
                    name + " needs a value" +
                        (option == nullptr ? "" : ", expected " + expectation(*option)));
      case po::invalid_syntax::extra_parameter:
        throw Error(Failure::usage, name + " takes no value");
      default:
        break;
    }
  }
  throw Error(Failure::usage, error.what());
}

// The word with the option. Boost does not keep it for all but the last letter of "-qv".
std::string as_typed(const po::option& parsed) {
  return parsed.original_tokens.empty() ? parsed.string_key : parsed.original_tokens.front();
}

// Refuses "--output --force" and "-output", which Boost reads as outputs named "--force" and
// "utput".
void refuse_typing_errors(const po::option& parsed, const std::vector<Option>& options) {
  const std::string typed = as_typed(parsed);
  if (typed.size() > 2 && typed[0] == '-' && typed[1] != '-') {
    const Option* meant = find(options, std::string_view(typed).substr(1));
    if (meant != nullptr) unknown(typed, meant->name, options);
  }
  if (parsed.original_tokens.size() < 2) return;
  const std::string& value = parsed.original_tokens[1];
  if (value.rfind("--", 0) != 0) return;
  if (find(options, std::string_view(value).substr(2, value.find('=') - 2)) != nullptr) {
    const Option* const option = find(options, parsed.string_key);
    throw Error(Failure::usage,
                fmt::format("{} needs a value, but an option follows: {}", typed, value),
                option == nullptr ? "" : "expected " + expectation(*option));
  }
}

}  // namespace

std::vector<Token> take_apart(const std::vector<std::string>& arguments,
                              const std::vector<Option>& options) {
  const po::options_description table = boost_table(options);
  std::vector<po::option> parsed;
  try {
    namespace style = po::command_line_style;
    parsed =
        po::command_line_parser(arguments)
            .options(table)
            .style(style::unix_style & ~style::allow_guessing)
            .extra_parser([&](const std::string& word) { return optional_value(word, options); })
            .extra_style_parser(stream_address)
            .allow_unregistered()
            .run()
            .options;
  } catch (const po::error_with_option_name& error) {
    syntax(error, options);
  }

  std::vector<Token> tokens;
  for (const po::option& item : parsed) {
    if (item.position_key >= 0) {
      if (as_typed(item).rfind("--=", 0) == 0) unknown(as_typed(item), "", options);
      for (const std::string& word : item.value) {
        refuse_long_dash(word, options);
        tokens.push_back({nullptr, word});
      }
      continue;
    }
    refuse_typing_errors(item, options);
    std::string name = item.string_key;
    if (item.unregistered) {
      const std::string typed = as_typed(item);
      unknown(typed.substr(0, typed.find('=', 2)), name, options);
    }
    if (name.back() == '=') name.pop_back();
    tokens.push_back({find(options, name), item.value.empty() ? "" : item.value.front()});
  }
  return tokens;
}

}  // namespace attn::cli
