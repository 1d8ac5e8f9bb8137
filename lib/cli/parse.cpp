#include "cli/parse.hpp"

#include <algorithm>
#include <climits>
#include <filesystem>
#include <span>
#include <stdexcept>

#include <fmt/format.h>

#include "attnkit/error.hpp"
#include "attnkit/version.hpp"
#include "cli/option.hpp"
#include "cli/tokens.hpp"
#include "cli/values.hpp"
#include "cli/words.hpp"

namespace attn::cli {
namespace {

[[noreturn]] void usage(const std::string& message, std::string hint = {}) {
  throw Error(Failure::usage, message, std::move(hint));
}

bool contains(const std::vector<std::string>& list, std::string_view item) {
  return std::find(list.begin(), list.end(), item) != list.end();
}

// Whether `address`, or the part of it before a ':' or '[', names `file`.
bool address_leads_to(std::string_view address, const std::string& file) {
  // A longer path names nothing.
  const std::size_t most = std::min<std::size_t>(address.size(), PATH_MAX);
  for (std::size_t end = 0; end <= most; ++end) {
    if (end < address.size() && address[end] != ':' && address[end] != '[') continue;
    const std::string part(address.substr(0, end));
    std::error_code none;
    if (part == file || (std::filesystem::is_regular_file(part, none) &&
                         std::filesystem::equivalent(part, file, none))) {
      return true;
    }
  }
  return false;
}

// Whether a word of the command line, an address or an option with one, names `file`. The report
// must not overwrite an input or the bundle.
bool leads_to(std::string_view word, const std::string& file) {
  if (address_leads_to(word, file)) return true;
  if (word.rfind("-o", 0) == 0 || word.rfind("-i", 0) == 0) {
    if (address_leads_to(word.substr(2), file)) return true;
  }
  for (std::size_t sign = word.find('='); sign != std::string_view::npos;
       sign = word.find('=', sign + 1)) {
    if (address_leads_to(word.substr(sign + 1), file)) return true;
  }
  return false;
}

std::string as_destination(const std::string& json) {
  return json == "-" || json == "/dev/stdout" ? "" : json;
}

// The steps of parse(), in their order.
class Parser {
 public:
  Parser(const Declaration::Impl& declaration, const Environment& environment)
      : declaration_(declaration), environment_(environment), options_(all_options(declaration)) {
    arguments_.impl = std::make_shared<Arguments::Impl>();
    arguments_.tool = declaration.tool;
    arguments_.version = version();
  }

  Arguments parse(const std::vector<std::string>& command_line) {
    arguments_.command_line = declaration_.tool;
    for (const std::string& word : command_line) {
      arguments_.command_line += " " + shell_quoted(word);
    }
    take_values(command_line);
    take_verb();
    settle_options();
    role_ = declaration_.role_of(arguments_.verb);
    take_words();
    take_input();
    resolve();
    check_effects();
    check_streams();
    return std::move(arguments_);
  }

 private:
  // Whether `word` would be an item of the list after `option`, which begins so.
  static bool goes_on(const Option& option, std::string_view list, const std::string& word) {
    if (option.kind == Option::Kind::numbers || option.kind == Option::Kind::integers ||
        option.kind == Option::Kind::choices) {
      return is_item(option, word);
    }
    const bool is_list = option.kind == Option::Kind::text &&
                         (option.placeholder == "LIST" || option.placeholder.ends_with(",..."));
    if (!is_list) return false;
    // As in --map q=Q k=K and --heads 0 1.
    const bool has_names = list.find('=') != std::string_view::npos;
    return has_names ? word.find('=') != std::string::npos
                     : to_integer(list.substr(list.rfind(',') + 1)) && to_integer(word);
  }

  // "--epsilon 1e-8 1e-3": words that would be items of the list before them, and name no file.
  void refuse_items_apart(std::span<const Token> tokens) const {
    const Option& option = *tokens.front().option;
    std::string list = tokens.front().text;
    for (const Token& token : tokens.subspan(1)) {
      std::error_code none;
      if (token.option != nullptr || !goes_on(option, list, token.text) ||
          contains(verb_names(declaration_), token.text) ||
          std::filesystem::exists(token.text, none)) {
        break;
      }
      list += "," + token.text;
    }
    if (list == tokens.front().text) return;
    usage(fmt::format("unexpected argument {} after --{} {}", tokens[1].text, option.name,
                      tokens.front().text),
          fmt::format("a list has commas: --{} {}", option.name, list));
  }

  // "--memory 1 GB": a unit that stands apart from its size, and names no file.
  static void refuse_unit_apart(std::span<const Token> tokens) {
    const Option& option = *tokens.front().option;
    if (option.kind != Option::Kind::size || tokens.size() < 2 || tokens[1].option != nullptr) {
      return;
    }
    const std::string& word = tokens[1].text;
    const std::string_view unit = std::string_view(word).substr(0, word.find_first_of("bBiI"));
    std::error_code none;
    if (unit.size() != 1 || word.size() > 3 || to_integer(unit) ||
        !to_bytes("1" + std::string(unit)) || std::filesystem::exists(word, none)) {
      return;
    }
    parse_value(option, tokens.front().text + " " + word);
  }

  // "--causal top-left in.h5" or "--force true in.h5": a word that would be the value of the option
  // before it, which has none or takes it after "=", and names no file.
  void refuse_value_apart(std::span<const Token> tokens) const {
    const Option& option = *tokens.front().option;
    if (tokens.size() < 2 || tokens[1].option != nullptr) return;
    const std::string& word = tokens[1].text;
    const bool is_value =
        option.name == "json" ? word.ends_with(".json") : contains(option.values, word);
    // The words of a tool may be any.
    const bool is_switch = declaration_.words_placeholder.empty() && is_switch_word(word);
    std::error_code none;
    if ((!is_value && !is_switch) || std::filesystem::exists(word, none)) return;
    usage(fmt::format("unexpected argument {} after --{}", word, option.name),
          is_value ? fmt::format("--{}={}", option.name, word) : hint_on_switch(option, word));
  }

  void take_values(const std::vector<std::string>& command_line) {
    Arguments::Impl& impl = *arguments_.impl;
    const std::vector<Token> tokens = take_apart(command_line, options_);
    for (std::size_t n = 0; n < tokens.size(); ++n) {
      const Token& token = tokens[n];
      if (token.option == nullptr) {
        positionals_.push_back(token.text);
        continue;
      }
      const Option& option = *token.option;
      const bool again = contains(impl.given, option.name);
      if (!again) impl.given.push_back(option.name);
      if (option.kind == Option::Kind::assignment) {
        take_assignment(option, token.text);
        continue;
      }
      if (again && !option.may_be_repeated()) usage("--" + option.name + " is given twice");
      if (option.kind == Option::Kind::texts) {
        Value& value = impl.values[option.name];
        if (!again) value = std::vector<std::string>();
        parse_value(option, token.text);
        std::get<std::vector<std::string>>(value).push_back(token.text);
        continue;
      }
      refuse_unit_apart(std::span(tokens).subspan(n));
      const bool bare = !option.takes_value() || (option.value_is_optional() && token.text.empty());
      impl.values[option.name] =
          bare && option.takes_value() ? Value(std::string()) : parse_value(option, token.text);
      if (bare) refuse_value_apart(std::span(tokens).subspan(n));
      refuse_items_apart(std::span(tokens).subspan(n));
    }
  }

  void take_assignment(const Option& option, const std::string& text) {
    parse_value(option, text);
    const std::size_t equals = text.find('=');
    const std::string name = text.substr(0, equals);
    for (const auto& [other, address] : arguments_.named_inputs) {
      if (other == name) usage(fmt::format("--{} names {} twice", option.name, name));
    }
    arguments_.named_inputs.emplace_back(name, text.substr(equals + 1));
  }

  void take_verb() {
    if (declaration_.verbs.empty()) return;
    const std::vector<std::string> names = verb_names(declaration_);
    const bool is_verb = !positionals_.empty() && contains(names, positionals_.front());
    if (!is_verb && verb_is_optional(declaration_)) return;
    const std::string known = fmt::format("expected one of {}", fmt::join(names, ", "));
    if (positionals_.empty()) {
      usage(declaration_.verb_placeholder + " is missing, " + known);
    }
    arguments_.verb = positionals_.front();
    if (!is_verb) {
      const std::string near = nearest(arguments_.verb, names);
      usage(fmt::format("{} is {}, {}", declaration_.verb_placeholder, arguments_.verb, known),
            near.empty() ? "" : "did you mean " + near + "?");
    }
    positionals_.erase(positionals_.begin());
  }

  // Refuses options that the verb does not accept, and sets those that are not given to their
  // fallbacks.
  void settle_options() {
    Arguments::Impl& impl = *arguments_.impl;
    for (const Option& option : options_) {
      const bool given = contains(impl.given, option.name);
      if (given && !option.goes_with(arguments_.verb)) {
        refuse_with_verb(option);
      }
      Value& value = impl.values[option.name];
      if (!given && option.kind == Option::Kind::flag) value = false;
      if (option.goes_with(arguments_.verb)) {
        if (!given && option.fallback) value = parse_value(option, *option.fallback);
        impl.order.push_back(option.name);
      }
      impl.options.emplace(option.name, option);
    }
  }

  [[noreturn]] void refuse_with_verb(const Option& option) const {
    const std::string others = fmt::format("{}", fmt::join(without_empty(option.verbs), ", "));
    if (arguments_.verb.empty()) {
      usage(fmt::format("--{} is an option of {} only", option.name, others));
    }
    const std::string only = others.empty() ? "" : ", only of " + others;
    usage(fmt::format("--{} is not an option of {}{}", option.name, arguments_.verb, only));
  }

  void take_words() {
    const std::size_t low = static_cast<std::size_t>(declaration_.words_low);
    const bool any_number = declaration_.words_high < 0;
    if (has_input(role_) && declaration_.words_high != declaration_.words_low) {
      throw std::logic_error("a tool with an INPUT takes a fixed number of words before it");
    }
    if (positionals_.size() < low) {
      usage(fmt::format(
          "expected {}, got {}", declaration_.words_placeholder,
          positionals_.empty() ? "nothing" : fmt::format("{}", fmt::join(positionals_, " "))));
    }
    const std::size_t count =
        any_number
            ? positionals_.size()
            : std::min(positionals_.size(), static_cast<std::size_t>(declaration_.words_high));
    const auto end = positionals_.begin() + static_cast<std::ptrdiff_t>(count);
    arguments_.impl->words.assign(positionals_.begin(), end);
    arguments_.impl->positionals = arguments_.impl->words;
    positionals_.erase(positionals_.begin(), end);
  }

  void take_input() {
    if (has_input(role_)) {
      const auto count = static_cast<std::ptrdiff_t>(
          declaration_.several_inputs ? positionals_.size()
                                      : std::min<std::size_t>(1, positionals_.size()));
      arguments_.inputs.assign(positionals_.begin(), positionals_.begin() + count);
      positionals_.erase(positionals_.begin(), positionals_.begin() + count);
      if (arguments_.inputs.empty() && role_ != Role::optional_input &&
          arguments_.named_inputs.empty()) {
        arguments_.inputs.emplace_back("-");
      }
      for (const std::string& input : arguments_.inputs) {
        if (input.empty()) usage("INPUT is empty");
        arguments_.impl->positionals.push_back(input);
      }
      if (!arguments_.inputs.empty()) arguments_.input = arguments_.inputs.front();
    }
    if (positionals_.empty()) return;
    const std::string& first = positionals_.front();
    std::string hint;
    if (arguments_.input) hint = "INPUT is already " + *arguments_.input;
    std::error_code none;
    if (has_output(role_) && !contains(arguments_.impl->given, "output") &&
        !std::filesystem::exists(first, none)) {
      hint += (hint.empty() ? "" : "; ") + ("an output is -o " + first);
    }
    if (arguments_.input && first.ends_with(".npy")) {
      hint = fmt::format("each array gets a name: -i NAME={} -i NAME={}", *arguments_.input, first);
    }
    usage("unexpected argument " + first, hint);
  }

  void resolve() {
    Arguments& a = arguments_;
    auto& values = a.impl->values;
    const auto has = [&](std::string_view name) { return contains(a.impl->order, name); };
    const auto text = [&](std::string_view name) { return has(name) ? a.text(name) : ""; };
    const auto flag = [&](std::string_view name) { return has(name) && a.flag(name); };

    if (has_output(role_)) {
      if (a.given("output")) {
        a.output = a.text("output");
        if (a.output->empty()) usage("--output is empty");
        if (role_ == Role::continued && *a.output == "-") usage("--output is -, expected a file");
      } else if (role_ == Role::continued) {
        usage("-o OUTPUT is missing");
      } else if (role_ != Role::report && a.inputs.size() <= 1) {
        a.output = "-";
        values["output"] = "-";
      }
    }
    if (has("input")) {
      std::vector<std::string> assignments;
      for (const auto& [name, address] : a.named_inputs)
        assignments.push_back(name + "=" + address);
      values["input"] = assignments;
    }
    a.allow_external = flag("allow-external");
    a.only = flag("only");
    a.force = flag("force");
    a.compress = to_deflate_level(text("compress"));
    a.quiet = flag("quiet");
    a.verbose = flag("verbose");
    a.dry_run = flag("dry-run");
    a.threads = resolve_threads(a.integer("threads"), environment_);
    values["threads"] = static_cast<Index>(a.threads);
    a.memory = std::get<Index>(values.at("memory"));
    if (has("seed")) a.seed = std::get<std::uint64_t>(values.at("seed"));
    const std::string precision = text("precision");
    if (!precision.empty()) a.f64 = precision == "f64";
    a.bf16 = precision == "bf16";
    a.tmpdir = resolve_tmpdir(text("tmpdir"), environment_);
    values["tmpdir"] = a.tmpdir;
    const std::string progress = text("progress");
    a.progress = progress == "always"  ? Arguments::Progress::always
                 : progress == "never" ? Arguments::Progress::never
                                       : Arguments::Progress::automatic;
    if (a.given("json")) a.json = as_destination(a.text("json"));
  }

  void check_effects() const {
    if (role_ != Role::report || arguments_.output) return;
    for (const char* option : {"only", "compress"}) {
      if (!contains(arguments_.impl->order, option) || !arguments_.given(option)) continue;
      usage(fmt::format("--{} has no effect without an output bundle", option),
            "name one with -o FILE");
    }
  }

  void check_streams() const {
    const Arguments& a = arguments_;
    if (a.json && a.json->empty() && a.bundle_to_stdout()) {
      usage("--json and the bundle would both go to standard output",
            "use --json=FILE, or write the bundle with -o FILE");
    }
    if (a.json && !a.json->empty()) {
      for (const Option& option : options_) {
        if (option.kind != Option::Kind::text || option.placeholder != "FILE") continue;
        if (a.given(option.name) && leads_to(a.text(option.name), *a.json)) {
          usage(fmt::format("--json and --{} both name {}", option.name, *a.json));
        }
      }
      std::vector<std::string> read = a.impl->positionals;
      for (const auto& [name, address] : a.named_inputs) read.push_back(address);
      for (const std::string& address : read) {
        if (leads_to(address, *a.json)) usage("--json=" + *a.json + " is an input, " + address);
      }
    }
    const auto is_stream = [](const std::string& address) {
      return address == "-" || address.rfind("-:", 0) == 0;
    };
    if (role_ == Role::compare) {
      const std::vector<std::string>& pair = a.impl->words;
      if (std::count_if(pair.begin(), pair.end(), is_stream) > 1) {
        usage("A and B both are standard input, which can be read only once");
      }
    }
    if (std::count_if(a.inputs.begin(), a.inputs.end(), is_stream) > 1) {
      usage("two INPUTs are standard input, which can be read only once");
    }
  }

  const Declaration::Impl& declaration_;
  const Environment& environment_;
  std::vector<Option> options_;
  std::vector<std::string> positionals_;
  Role role_ = Role::transform;
  Arguments arguments_;
};

}  // namespace

Arguments parse(const std::vector<std::string>& command_line, const Declaration& declaration,
                const Environment& environment) {
  return Parser(declaration.impl(), environment).parse(command_line);
}

bool asks_for(const std::vector<std::string>& command_line, std::string_view long_name,
              std::string_view short_name) {
  for (const std::string& word : command_line) {
    if (word == "--") return false;
    if (word == long_name || (!short_name.empty() && word == short_name)) return true;
  }
  return false;
}

std::optional<std::string> topic_text(const std::vector<std::string>& command_line,
                                      const Declaration& declaration) {
  const auto& topic = declaration.impl().topic;
  if (!topic) return std::nullopt;
  const std::string start = "--help=";
  for (const std::string& word : command_line) {
    if (word == "--") break;
    if (word.rfind(start, 0) != 0) continue;
    if (word == start + topic->name) return topic->text();
    usage("--help is " + word.substr(start.size()) + ", expected " + topic->name);
  }
  return std::nullopt;
}

std::optional<std::string> completion_shell(const std::vector<std::string>& command_line,
                                            const Declaration& declaration) {
  std::optional<std::string> shell;
  for (std::size_t at = 0; at < command_line.size() && command_line[at] != "--"; ++at) {
    const std::string& word = command_line[at];
    const std::string name = "--completion";
    if (word == name) {
      if (at + 1 == command_line.size()) usage(name + " needs a value");
      shell = command_line[at + 1];
    } else if (word.rfind(name + "=", 0) == 0) {
      shell = word.substr(name.size() + 1);
    }
  }
  if (!shell) return shell;
  for (const Option& option : all_options(declaration.impl())) {
    if (option.name == "completion") parse_value(option, *shell);
  }
  return shell;
}

std::optional<std::string> json_of_refused(const std::vector<std::string>& command_line,
                                           const Declaration& declaration) {
  const Role role = declaration.impl().role;
  bool stdout_is_free = role == Role::report || role == Role::inspect || role == Role::compare;
  std::optional<std::string> destination;
  for (std::size_t at = 0; at < command_line.size() && command_line[at] != "--"; ++at) {
    const std::string& word = command_line[at];
    const std::string next = at + 1 < command_line.size() ? command_line[at + 1] : "-";
    const auto begins = [&](std::string_view start) { return word.rfind(start, 0) == 0; };
    if (word == "--json") destination = "";
    if (begins("--json=")) destination = as_destination(word.substr(7));
    if (word == "-o" || word == "--output") {
      stdout_is_free = next != "-";
    } else if (begins("--output=") || begins("-o")) {
      stdout_is_free = word != "--output=-" && word != "-o-";
    } else if (word == "--dry-run") {
      stdout_is_free = true;
    }
  }
  if (!destination) return destination;
  if (destination->empty()) return stdout_is_free ? destination : std::nullopt;
  for (const std::string& word : command_line) {
    if (word.rfind("--json=", 0) != 0 && leads_to(word, *destination)) return std::nullopt;
  }
  return destination;
}

std::string version() { return ATTNKIT_VERSION; }

}  // namespace attn::cli
