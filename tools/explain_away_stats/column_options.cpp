#include "explain_away_stats/column_options.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "attnkit/error.hpp"
#include "common/heads/foreign_names.hpp"
#include "common/heads/score_source.hpp"
#include "common/options/scheme_settings.hpp"

namespace attn::tools {
namespace {

constexpr double most_iterations = 0x1p40;  // of --iterations

// A number that a tool recorded, which must be in the range that the tools allow; none if it is out
// of range and not needed.
std::optional<double> recorded_number(const io::InputBundle& bundle, const std::string& name,
                                      double low, double high, bool needed) {
  const auto value = bundle.number_attribute(name);
  if (value && !(*value >= low && *value <= high)) {
    if (!needed) return std::nullopt;
    throw Error(Failure::input, fmt::format("{}: attribute {} is {}, expected a number in [{}, {}]",
                                            bundle.description(), name, *value, low, high));
  }
  return value;
}

[[noreturn]] void refuse_attribute(const io::InputBundle& bundle, const std::string& name,
                                   const std::string& value, const std::string& expected) {
  throw Error(Failure::input,
              bundle.description() + ": attribute " + name + " is " + value + ", " + expected);
}

// The default schemes: those that can be computed, else the stored weights.
std::vector<std::string> usual_schemes(const io::InputBundle& bundle, bool computable) {
  if (computable) return {"unas", "dnas"};
  if (bundle.has("weights")) return {stored};
  // The missing datasets are refused by name later.
  return {"unas", "dnas"};
}

}  // namespace

std::vector<SweepPoint> sweep_points(const cli::Arguments& arguments) {
  const auto given = [&](const char* name) {
    std::vector<std::optional<double>> values;
    if (arguments.given(name)) {
      for (const double value : arguments.numbers(name)) values.emplace_back(value);
    } else {
      values.emplace_back();
    }
    return values;
  };
  std::vector<SweepPoint> points;
  for (const auto& scale : given("scale")) {
    for (const auto& hybrid : given("hybrid")) points.push_back({scale, hybrid});
  }
  return points;
}

cli::Arguments at_point(const cli::Arguments& arguments, const SweepPoint& point) {
  cli::Arguments own = arguments;
  if (point.scale) own = own.with("scale", *point.scale);
  if (point.hybrid) own = own.with("hybrid", *point.hybrid);
  return own;
}

bool ColumnOptions::wants(const std::string& scheme) const {
  return std::find(schemes.begin(), schemes.end(), scheme) != schemes.end();
}

std::vector<Scheme> ColumnOptions::scored_schemes() const {
  std::vector<Scheme> scored;
  for (const std::string& name : schemes) {
    scored.push_back(scheme_of(name).value_or(recorded.value_or(Scheme::unas)));
  }
  return scored;
}

SchemeOptions ColumnOptions::scheme_options(Scheme scheme, Index problem) const {
  SchemeOptions made;
  made.scheme = scheme;
  made.stopping = stopping;
  if (!hybrid.empty()) made.hybrid = hybrid[static_cast<std::size_t>(problem)];
  return made;
}

ColumnOptions resolve_column_options(const cli::Arguments& arguments,
                                     const io::InputBundle& bundle) {
  ColumnOptions options;
  options.scores = resolve_score_options(arguments, &bundle);
  options.scores.by_sequence = true;
  options.sinks = arguments.integer("sinks");
  options.rest_on_sink = arguments.text("rest") == "sink";
  if (!arguments.given("precision")) {
    options.scores.bf16 = bundle.text_attribute("attn_precision") == "bf16";
  }
  const bool computable = has_scores(bundle, options.scores.source);
  options.schemes = arguments.words_of("scheme");
  if (options.schemes.empty()) options.schemes = usual_schemes(bundle, computable);
  if (!computable && !bundle.has("weights") && !arguments.given("from")) {
    refuse_other_names(bundle, "weights",
                       {"attn", "attention", "attentions", "attn_weights", "attention_weights",
                        "attn_probs", "attention_probs"});
  }
  // Stored weights are sufficient alone; potentials need the scores.
  if (options.schemes == std::vector<std::string>{stored} && bundle.has("weights") && !computable) {
    options.scores.source = ScoreOptions::Source::weights;
  }
  if (const auto scheme = bundle.text_attribute("attn_scheme")) {
    options.recorded = scheme_of(*scheme);
    // No potentials define the weights of either.
    const bool moves = options.recorded && description_of(*options.recorded).is_transport();
    if (moves) options.recorded.reset();
    const bool repeated = is_repeated(*scheme) || moves;
    if (repeated && options.wants(stored) && !bundle.has("weights")) {
      throw Error(Failure::input,
                  fmt::format("{}: potentials of {} do not rebuild its weights",
                              bundle.description(), *scheme),
                  "attn-compute --emit weights");
    }
    if (!options.recorded && !repeated && options.wants(stored)) {
      refuse_attribute(bundle, "attn_scheme", *scheme, "which is unknown");
    }
  }
  const std::vector<Scheme> used = options.scored_schemes();
  require_effect_on(arguments, "hybrid", &SchemeDescription::is_mixture, used);
  require_effect_on(arguments, "alpha", &SchemeDescription::has_preference, used);

  const bool iterates = any_has(used, &SchemeDescription::is_iterated);
  options.stopping.tolerance =
      recorded_number(bundle, "attn_tolerance", std::numeric_limits<double>::min(), 1, iterates);
  const auto iterations = recorded_number(bundle, "attn_iterations", 1, most_iterations, iterates);
  if (iterations && *iterations != std::floor(*iterations)) {
    refuse_attribute(bundle, "attn_iterations", fmt::format("{}", *iterations),
                     "expected a whole number");
  }
  if (iterations) options.stopping.iterations = static_cast<Index>(*iterations);
  return options;
}

bool suffices_for_columns(const cli::Arguments& arguments, const io::InputBundle& bundle) {
  const cli::Arguments own = at_point(arguments, sweep_points(arguments).front());
  if (has_scores(bundle, resolve_score_options(own, &bundle).source)) return true;
  const std::vector<std::string> schemes = arguments.words_of("scheme");
  return bundle.is_dataset("weights") &&
         (schemes.empty() || schemes == std::vector<std::string>{stored});
}

void complete_column_options(const cli::Arguments& arguments, const io::InputBundle& bundle,
                             const AttentionInput& input, ColumnOptions& options) {
  if (any_has(options.scored_schemes(), &SchemeDescription::is_mixture)) {
    options.hybrid = hybrid_per_head(arguments, bundle, input, true);
  }
  options.f64 = input.any_float64 || (options.wants(stored) && bundle.has("weights") &&
                                      bundle.dataset("weights").dtype() == DType::f64);
  options.f64 = recorded_f64(bundle).value_or(options.f64);
  options.f64 = arguments.f64.value_or(options.f64);
}

}  // namespace attn::tools
