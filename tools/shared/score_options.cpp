#include "shared/score_options.hpp"

#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include <nlohmann/json.hpp>

#include "tensor/error.hpp"

namespace attn::tools {
namespace {

constexpr std::array<std::pair<Scheme, const char*>, 4> schemes = {{
    {Scheme::unas, "unas"},
    {Scheme::dnas, "dnas"},
    {Scheme::hnas, "hnas"},
    {Scheme::sinkhorn, "sinkhorn"},
}};

constexpr std::array<std::pair<EnergyKind, const char*>, 3> energies = {{
    {EnergyKind::scaled_dot, "scaled-dot"},
    {EnergyKind::dot, "dot"},
    {EnergyKind::gaussian, "gaussian"},
}};

constexpr std::array<std::pair<Causal, const char*>, 3> causal_masks = {{
    {Causal::none, "none"},
    {Causal::top_left, "top-left"},
    {Causal::bottom_right, "bottom-right"},
}};

constexpr std::array<std::pair<ScoreOptions::Source, const char*>, 2> sources = {{
    {ScoreOptions::Source::vectors, "qk"},
    {ScoreOptions::Source::scores, "scores"},
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

// A word of the command line, or of the bundle's attribute where the option was not given.
template <class Table>
auto resolve_word(const Table& table, const std::string& option, const cli::Arguments& arguments,
                  const io::InputBundle* recorded) {
  std::string word = arguments.text(option);
  if (recorded != nullptr && !arguments.given(option)) {
    const std::string attribute = option == "from" ? "attn_source" : "attn_" + option;
    const auto stored = recorded->text_attribute(attribute);
    if (stored) {
      word = *stored;
      if (!value_in(table, word)) {
        throw Error(Failure::input, recorded->description() + ": attribute " + attribute + " is " +
                                        word + ", which is not known here");
      }
    }
  }
  return value_in(table, word).value();
}

}  // namespace

void declare_score_options(cli::Declaration& declaration, bool inherited) {
  const std::string from_bundle = inherited ? " Default: as the bundle was made." : "";
  constexpr double infinity = std::numeric_limits<double>::infinity();
  declaration
      .choice("energy", names_of(energies),
              "What scores are made of: scaled-dot <q,k>/sqrt(d), dot <q,k>, gaussian "
              "-|q-k|^2/2." +
                  from_bundle,
              "scaled-dot")
      .number("scale", "X",
              "Multiplies the energy, 1/sqrt(d) of scaled-dot included: PyTorch's scale=X is "
              "--energy dot --scale X." +
                  from_bundle,
              {-infinity, infinity, true, true}, 1.0)
      .optional_choice("causal", {"none", "top-left", "bottom-right"},
                       "Queries see no later keys: j <= i (top-left), or j <= i + Lk - Lq "
                       "(bottom-right). The alignment is needed where Lq and Lk differ." +
                           from_bundle)
      .choice("from", names_of(sources),
              "Scores from q and k, or ready-made from the dataset scores." + from_bundle, "qk");
}

ScoreOptions resolve_score_options(const cli::Arguments& arguments,
                                   const io::InputBundle* recorded) {
  ScoreOptions options;
  options.energy = resolve_word(energies, "energy", arguments, recorded);
  options.source = resolve_word(sources, "from", arguments, recorded);
  if (options.source == ScoreOptions::Source::scores && arguments.given("energy")) {
    throw Error(Failure::usage, "--energy has no effect on ready-made scores",
                arguments.given("from") ? "" : "--from qk computes scores from q and k");
  }
  options.scale = arguments.number("scale").value_or(1.0);
  if (arguments.given("causal")) options.causal = arguments.text("causal");
  if (recorded == nullptr) return options;

  if (const auto scale = recorded->number_attribute("attn_scale");
      scale && !arguments.given("scale")) {
    if (!std::isfinite(*scale)) {
      throw Error(Failure::input, recorded->description() + ": attribute attn_scale is not finite");
    }
    options.scale = *scale;
  }
  if (!arguments.given("causal")) {
    const auto causal = recorded->text_attribute("attn_causal");
    if (causal && !value_in(causal_masks, *causal)) {
      throw Error(Failure::input, recorded->description() + ": attribute attn_causal is " +
                                      *causal + ", which is not known here");
    }
    if (causal && *causal != "none") options.causal = *causal;
  }
  return options;
}

Causal resolve_causal(const ScoreOptions& options, Index queries, Index keys) {
  if (!options.causal) return Causal::none;
  if (!options.causal->empty()) return value_in(causal_masks, *options.causal).value();
  if (queries != keys) {
    throw Error(Failure::usage,
                "--causal has two meanings for " + std::to_string(queries) + " queries and " +
                    std::to_string(keys) + " keys",
                "--causal=top-left (j <= i) or --causal=bottom-right (j <= i + Lk - Lq)");
  }
  return Causal::top_left;
}

void record_score_options(const ScoreOptions& options, Causal causal, io::OutputBundle& output) {
  output.attribute("attn_energy", energy_name(options.energy));
  output.attribute("attn_scale", options.scale);
  output.attribute("attn_causal", causal_name(causal));
  output.attribute("attn_source", name_in(sources, options.source));
}

void report_score_options(const ScoreOptions& options, Causal causal, cli::Report& report) {
  auto& params = report.params();
  params["energy"] = energy_name(options.energy);
  params["scale"] = options.scale;
  params["causal"] = causal_name(causal);
  params["from"] = name_in(sources, options.source);
}

std::string scheme_name(Scheme scheme) { return name_in(schemes, scheme); }

std::optional<Scheme> scheme_of(const std::string& name) {
  const auto found = value_in(schemes, name);
  return found ? std::optional<Scheme>(*found) : std::nullopt;
}

std::string energy_name(EnergyKind energy) { return name_in(energies, energy); }
std::string causal_name(Causal causal) { return name_in(causal_masks, causal); }

}  // namespace attn::tools
