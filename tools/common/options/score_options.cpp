#include "common/options/score_options.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "attnkit/error.hpp"
#include "cli/words.hpp"
#include "common/options/score_words.hpp"
#include "common/options/window_words.hpp"
#include "common/outputs/written_scores.hpp"
#include "energy/energy_description.hpp"
#include "scheme/scheme_description.hpp"

namespace attn::tools {
namespace {

constexpr Index most_offset = Index{1} << 40;

constexpr std::array<std::pair<ScoreOptions::Relative, const char*>, 3> relative_biases = {{
    {ScoreOptions::Relative::none, "none"},
    {ScoreOptions::Relative::t5, "t5"},
    {ScoreOptions::Relative::alibi, "alibi"},
}};

constexpr std::array<std::pair<ScoreOptions::Layout, const char*>, 2> layouts = {{
    {ScoreOptions::Layout::heads_first, "bhld"},
    {ScoreOptions::Layout::heads_inside, "blhd"},
}};

constexpr std::array<std::pair<Causal, const char*>, 3> causal_masks = {{
    {Causal::none, "none"},
    {Causal::top_left, "top-left"},
    {Causal::bottom_right, "bottom-right"},
}};

constexpr std::array<std::pair<ScoreOptions::Source, const char*>, 5> sources = {{
    {ScoreOptions::Source::vectors, "qk"},
    {ScoreOptions::Source::projection, "projection"},
    {ScoreOptions::Source::scores, "scores"},
    {ScoreOptions::Source::cost, "cost"},
    {ScoreOptions::Source::templates, "templates"},
}};

template <class Table, class Value>
std::string name_in(const Table& table, Value value) {
  for (const auto& [entry, name] : table) {
    if (entry == value) return name;
  }
  return "";
}

template <class Table>
auto value_in(const Table& table, const std::string& name)
    -> std::optional<decltype(table.front().first)> {
  for (const auto& [entry, entry_name] : table) {
    if (name == entry_name) return entry;
  }
  return std::nullopt;
}

template <class Table>
std::vector<std::string> names_of(const Table& table) {
  std::vector<std::string> names;
  for (const auto& entry : table) names.emplace_back(entry.second);
  return names;
}

// "relative-bias" and "attn_relative_bias".
std::string attribute_of(const std::string& option) {
  std::string name = "attn_" + (option == "from" ? "source" : option);
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

// A number from the command line, or from the bundle's attribute if the option is not given.
std::optional<double> resolve_number(const std::string& option, bool positive,
                                     const cli::Arguments& arguments,
                                     const io::InputBundle* recorded) {
  if (recorded == nullptr || arguments.given(option)) return arguments.number(option);
  const auto stored = recorded->number_attribute(attribute_of(option));
  if (!stored) return arguments.number(option);
  if (!std::isfinite(*stored) || (positive && *stored <= 0)) {
    throw Error(Failure::input,
                fmt::format("{}: attribute {} is {}, expected a {}number", recorded->description(),
                            attribute_of(option), *stored, positive ? "positive " : "finite "));
  }
  return stored;
}

std::vector<std::pair<std::string, std::string>> energy_words() {
  std::vector<std::pair<std::string, std::string>> words;
  for (const EnergyDescription* energy : energies()) {
    words.emplace_back(energy->name(), energy->name());
  }
  return words;
}

// A word of the table that a bundle records.
template <class Table>
std::optional<std::string> recorded_word(const Table& table, const std::string& attribute,
                                         const io::InputBundle& recorded) {
  const std::string expected = fmt::format("expected one of {}", fmt::join(names_of(table), ", "));
  std::optional<std::string> word;
  try {
    word = recorded.text_attribute(attribute);
  } catch (const Error& error) {
    throw Error(error.failure(), error.what(), error.hint().empty() ? expected : error.hint());
  }
  if (word && !value_in(table, *word)) {
    throw Error(Failure::input, fmt::format("{}: attribute {} is {}, {}", recorded.description(),
                                            attribute, *word, expected));
  }
  return word;
}

// A word from the command line, or from the bundle's attribute if the option is not given.
template <class Table>
auto resolve_word(const Table& table, const std::string& option, const cli::Arguments& arguments,
                  const io::InputBundle* recorded) {
  std::string word = arguments.text(option);
  if (recorded != nullptr && !arguments.given(option)) {
    word = recorded_word(table, attribute_of(option), *recorded).value_or(word);
  }
  return value_in(table, word).value_or(table.front().first);
}

// Whether fenchel uses the energy recorded in the bundle. The energy of a run of another scheme
// does not count, as it may be that scheme's default.
bool records_energy(const io::InputBundle* recorded) {
  if (recorded == nullptr || !recorded->text_attribute("attn_energy")) return false;
  const SchemeDescription* const scheme =
      scheme_called(recorded->text_attribute("attn_scheme").value_or("fenchel"));
  return scheme != nullptr && scheme->has_preference();
}

Window resolve_window(const cli::Arguments& arguments, const io::InputBundle* recorded) {
  if (recorded == nullptr || arguments.given("window")) {
    const std::string text = arguments.text("window");
    const auto window = window_of(text.empty() ? "none" : text);
    if (window) return *window;
    throw Error(Failure::usage, "--window is " + text + ", expected W >= 1, LEFT:RIGHT or none");
  }
  const Setting stored = root_setting(*recorded, "attn_window");
  std::string text = "none";
  if (const auto* const words = std::get_if<std::string>(&stored)) text = *words;
  if (const auto* const number = std::get_if<std::int64_t>(&stored)) text = fmt::to_string(*number);
  if (const auto* const number = std::get_if<double>(&stored)) text = fmt::format("{}", *number);
  const auto window = window_of(text);
  if (window) return *window;
  throw Error(Failure::input,
              fmt::format("{}: attribute attn_window is {}, expected a whole number >= 1 or "
                          "LEFT:RIGHT",
                          recorded->description(), text));
}

std::optional<Index> resolve_offset(const cli::Arguments& arguments,
                                    const io::InputBundle* recorded) {
  if (recorded == nullptr || arguments.given("query-offset")) {
    return arguments.integer("query-offset");
  }
  const auto stored = recorded->number_attribute("attn_query_offset");
  if (!stored) return std::nullopt;
  if (!(std::abs(*stored) <= static_cast<double>(most_offset)) || *stored != std::floor(*stored)) {
    throw Error(Failure::input,
                fmt::format("{}: attribute attn_query_offset is {}, expected a whole number",
                            recorded->description(), *stored));
  }
  return static_cast<Index>(*stored);
}

}  // namespace

std::optional<bool> recorded_f64(const io::InputBundle& bundle) {
  const auto recorded = bundle.text_attribute("attn_precision");
  if (!recorded) return std::nullopt;
  if (*recorded != "f32" && *recorded != "f64" && *recorded != "bf16") {
    throw Error(Failure::input,
                fmt::format("{}: attribute attn_precision is {}, expected f32, f64 or bf16",
                            bundle.description(), *recorded));
  }
  return *recorded == "f64";
}

void declare_score_options(cli::Declaration& declaration, bool inherited, ScoreUse use) {
  const ScoreWords words = score_words(use);
  // The default is the value recorded in the bundle if it is `inherited`, else the default of this
  // use.
  const auto usual = [&](const std::string& own) {
    if (!inherited) return own;
    return "as recorded in the bundle" + (own.empty() ? "" : ", else " + own);
  };
  constexpr double infinity = std::numeric_limits<double>::infinity();
  declaration.choice("energy", words.energies, words.energy, "scaled-dot")
      .default_words(usual(words.energy_default));
  const cli::Declaration::Range any = {-infinity, infinity, true, true};
  // Only a report, which inherits its options, can be made for several scales at once.
  (inherited && use == ScoreUse::attention
       ? declaration.numbers("scale", "X,...",
                             words.scale + " Several values make a sweep, a row each.", any, {1.0})
       : declaration.number("scale", "X", words.scale, any, 1.0))
      .default_words(usual(""))
      .optional_choice("causal", {"none", "top-left", "bottom-right"},
                       "Hides later keys: query i may attend to key j only if j <= i (top-left) or "
                       "j <= i + Lk - Lq (bottom-right), all counted without padding. If Lq = Lk, "
                       "these are the same; WORD may be omitted then, and with --query-offset.")
      .default_words(usual("none"))
      .choice("relative-bias", names_of(relative_biases),
              words.relative_bias +
                  ": t5 uses the dataset rel_bias (buckets, H), bidirectional unless causal; alibi "
                  "is -slope |i-j| with the published slopes.",
              "none")
      .default_words(usual(""))
      .text(
          "window", "LEFT:RIGHT",
          "Query i may attend to key j only if p - LEFT <= j <= p + RIGHT, where p is the "
          "query's position: i plus the offset of --query-offset or --causal=bottom-right. A side "
          "without a number is open. W alone is |p-j| < W. Other pairs are not computed.")
      .default_words(usual("none"))
      .integer("query-offset", "N",
               "The position of query 0 among the keys, for a block of queries behind a cache: "
               "query i stands at i + N for --causal, --window and --relative-bias.",
               -most_offset, most_offset)
      .default_words(usual("the dataset query_offset if present, else 0"));
  declaration.number("softcap", "X", words.softcap, cli::Declaration::Range::positive())
      .or_none()
      .default_words(usual("none"));
  if (!words.alpha.empty()) {
    declaration.number("alpha", "A", words.alpha, cli::Declaration::Range::positive(), 1.0)
        .default_words(usual(""));
  }
  declaration.choice("from", words.sources, words.from, words.source_default)
      .default_words(usual(words.source_default_words))
      .choice("layout", names_of(layouts),
              words.layout + ": bhld (batch, heads, length, d) or blhd (batch, length, heads, d).",
              "bhld")
      .default_words(usual(""));
}

ScoreOptions resolve_score_options(const cli::Arguments& arguments,
                                   const io::InputBundle* recorded) {
  ScoreOptions options;
  options.energy = resolve_word(energy_words(), "energy", arguments, recorded);
  options.energy_chosen = arguments.given("energy") || records_energy(recorded);
  options.source = resolve_word(sources, "from", arguments, recorded);
  if (options.source == ScoreOptions::Source::scores && arguments.given("energy")) {
    throw Error(Failure::usage, "--energy has no effect on ready-made scores",
                arguments.given("from") ? "" : "--from qk computes scores from q and k");
  }
  options.bf16 = arguments.bf16;
  options.layout = resolve_word(layouts, "layout", arguments, recorded);
  options.layout_chosen =
      arguments.given("layout") || (recorded != nullptr && recorded->text_attribute("attn_layout"));
  // Scores that a tool wrote contain the terms of its run.
  const bool contained = options.source == ScoreOptions::Source::scores && recorded != nullptr &&
                         has_written_scores(*recorded);
  const io::InputBundle* const terms = contained ? nullptr : recorded;
  options.relative = resolve_word(relative_biases, "relative-bias", arguments, terms);
  options.scale = resolve_number("scale", false, arguments, terms).value_or(1.0);
  if (arguments.declared("alpha")) {
    options.alpha = resolve_number("alpha", true, arguments, terms).value_or(1.0);
  }
  if (options.source == ScoreOptions::Source::cost && recorded != nullptr) {
    const auto epsilon = recorded->number_attribute("attn_epsilon");
    if (epsilon && !(*epsilon > 0 && std::isfinite(*epsilon))) {
      throw Error(Failure::input,
                  fmt::format("{}: attribute attn_epsilon is {}, expected a positive number",
                              recorded->description(), *epsilon));
    }
    options.epsilon = epsilon.value_or(1.0);
  }
  options.softcap = resolve_number("softcap", true, arguments, terms);
  options.window = resolve_window(arguments, recorded);
  options.query_offset = resolve_offset(arguments, recorded);
  if (arguments.given("causal")) options.causal = arguments.text("causal");
  if (options.causal == "none") options.causal.reset();
  if (recorded != nullptr && !arguments.given("causal")) {
    const auto causal = recorded_word(causal_masks, attribute_of("causal"), *recorded);
    if (causal && *causal != "none") options.causal = *causal;
  }
  for (const char* option : {"scale", "causal", "window", "softcap"}) {
    const std::vector<std::string> names =
        recorded != nullptr ? recorded->attribute_names() : std::vector<std::string>();
    const bool given = arguments.declared(option) && arguments.given(option);
    if (given || std::find(names.begin(), names.end(), attribute_of(option)) != names.end()) {
      options.chosen.emplace_back(option);
    }
  }
  // Projections may have rotary positions: AttentionInput knows.
  if (arguments.given("query-offset") && !options.by_position() &&
      options.source != ScoreOptions::Source::projection) {
    throw Error(Failure::usage,
                "--query-offset has no effect without --causal, --window or --relative-bias");
  }
  return options;
}

std::string settings_left(const ScoreOptions& recorded, const ScoreOptions& used) {
  std::vector<std::string> left;
  if (recorded.energy != used.energy) left.push_back("energy " + recorded.energy);
  if (recorded.scale != used.scale) left.push_back(fmt::format("scale {}", recorded.scale));
  if (recorded.source != used.source) left.push_back("from " + name_in(sources, recorded.source));
  if (recorded.relative != used.relative) {
    left.push_back("relative-bias " + name_in(relative_biases, recorded.relative));
  }
  if (recorded.window != used.window) {
    left.push_back("window " + (recorded.window.is_open() ? "none" : window_text(recorded.window)));
  }
  if (recorded.query_offset != used.query_offset && recorded.query_offset) {
    left.push_back(fmt::format("query-offset {}", *recorded.query_offset));
  }
  if (recorded.softcap != used.softcap)
    left.push_back(fmt::format("softcap {}", *recorded.softcap));
  if (recorded.causal != used.causal) left.push_back("causal " + recorded.causal.value_or("none"));
  return fmt::format("{}", fmt::join(left, ", "));
}

void warn_of_settings_left(const std::string& settings, cli::Report& report) {
  report.warn("an earlier run used " + settings +
              "; options that are not given again take their defaults");
}

void refuse_open_causal(Index queries, Index keys, const std::string& place) {
  throw Error(
      Failure::usage,
      fmt::format("{}--causal is ambiguous for {} and {}", place,
                  cli::counted(queries, "query", "queries"), cli::counted(keys, "key")),
      std::string("--causal=top-left (j <= i) or --causal=bottom-right (j <= i + Lk - Lq)") +
          (queries < keys ? "; behind a cache of keys: --causal=bottom-right" : ""));
}

Causal resolve_causal(const ScoreOptions& options, Index queries, Index keys, bool has_offset) {
  if (!options.causal) return Causal::none;
  if (!options.causal->empty()) {
    const Causal causal = value_in(causal_masks, *options.causal).value();
    if (causal == Causal::bottom_right && has_offset) {
      throw Error(Failure::usage,
                  "both --causal=bottom-right and a query offset place the queries, expected one",
                  "--causal=top-left counts from the offset");
    }
    return causal;
  }
  if (queries != keys && !has_offset) {
    refuse_open_causal(queries, keys, "");
  }
  return Causal::top_left;
}

std::vector<std::pair<std::string, Setting>> score_settings(const ScoreOptions& options,
                                                            Scheme scheme, Causal causal) {
  std::vector<std::pair<std::string, Setting>> settings = {
      {"attn_energy", options.energy_of(scheme)},
      {"attn_scale", options.scale},
      {"attn_causal", causal_name(causal)},
      {"attn_source", name_in(sources, options.source)},
  };
  // Absent options are not recorded.
  if (options.relative != ScoreOptions::Relative::none) {
    settings.emplace_back("attn_relative_bias", name_in(relative_biases, options.relative));
  }
  if (!options.window.is_open()) {
    settings.emplace_back("attn_window", window_setting(options.window));
  }
  if (options.query_offset) {
    settings.emplace_back("attn_query_offset", std::int64_t{*options.query_offset});
  }
  if (options.softcap) settings.emplace_back("attn_softcap", *options.softcap);
  if (options.source == ScoreOptions::Source::cost) {
    settings.emplace_back("attn_epsilon", options.epsilon);
  }
  if (options.layout != ScoreOptions::Layout::heads_first) {
    settings.emplace_back("attn_layout", name_in(layouts, options.layout));
  }
  return settings;
}

void report_score_options(const ScoreOptions& options, Causal causal, cli::Report& report) {
  auto& params = report.params();
  params["energy"] = options.energy;
  params["scale"] = options.scale;
  params["causal"] = causal_name(causal);
  params["from"] = name_in(sources, options.source);
  params["relative_bias"] = name_in(relative_biases, options.relative);
  params["layout"] = name_in(layouts, options.layout);
  if (!options.window.is_open()) {
    const Setting window = window_setting(options.window);
    const auto* const distance = std::get_if<std::int64_t>(&window);
    if (distance != nullptr) {
      params["window"] = *distance;
    } else {
      params["window"] = window_text(options.window);
    }
  }
  if (options.query_offset) params["query_offset"] = *options.query_offset;
  if (options.softcap) params["softcap"] = *options.softcap;
}

std::string precision_name(const ScoreOptions& options, bool f64) {
  return options.bf16 ? "bf16" : f64 ? "f64" : "f32";
}

std::string precision_words(const ScoreOptions& options, bool f64) {
  return options.bf16 ? "bfloat16" : f64 ? "float64" : "float32";
}

std::string ScoreOptions::energy_of(Scheme scheme) const {
  const SchemeDescription& description = description_of(scheme);
  const bool usual = description.has_preference() && !energy_chosen;
  return usual ? std::string(description.usual_energy()) : energy;
}

std::string scheme_name(Scheme scheme) { return std::string(description_of(scheme).name()); }

std::optional<Scheme> scheme_of(const std::string& name) {
  const SchemeDescription* const found = scheme_called(name);
  return found == nullptr ? std::nullopt : std::optional(found->scheme());
}

std::string causal_name(Causal causal) { return name_in(causal_masks, causal); }

}  // namespace attn::tools
