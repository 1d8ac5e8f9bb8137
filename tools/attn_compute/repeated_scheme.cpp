#include "attn_compute/repeated_scheme.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "attnkit/error.hpp"
#include "common/options/scheme_settings.hpp"
#include "energy/table.hpp"
#include "head/repeated_scores.hpp"

namespace attn::tools {
namespace {

const RepeatedScheme* repeated_scheme(const std::string& name) {
  const auto* const found = std::find_if(repeated_schemes.begin(), repeated_schemes.end(),
                                         [&](const auto& one) { return one.name == name; });
  return found == repeated_schemes.end() ? nullptr : found;
}

}  // namespace

Scheme scheme_each_time(const std::string& scheme) {
  const RepeatedScheme* const repeated = repeated_scheme(scheme);
  return repeated == nullptr ? scheme_of(scheme).value() : repeated->each_time;
}

void declare_estimates(cli::Declaration& d) {
  d.choices("estimate", {"variance", "priors"},
            "What em estimates besides the centres: the variance S_i of each query's Gaussian, "
            "which is 1/scale at first (sqrt(d)/scale for scaled-dot), and their priors b_i.")
      .default_words("nothing");
  d.number("min-variance", "S",
           "Lower bound of the variances that em estimates, which may not start below it.",
           cli::Declaration::Range::positive(), Repetition().min_variance);
}

std::optional<Repetition> repetition_of(const cli::Arguments& arguments) {
  const auto require = [](bool holds, const std::string& message) {
    if (!holds) throw Error(Failure::usage, message);
  };
  const std::string name = arguments.text("scheme");
  const std::vector<std::string> estimated = arguments.words_of("estimate");
  const auto estimates = [&](const char* what) {
    return std::find(estimated.begin(), estimated.end(), what) != estimated.end();
  };
  require(name == "em" || !arguments.given("estimate"), "--estimate requires --scheme em");
  require(estimates("variance") || !arguments.given("min-variance"),
          "--min-variance requires --scheme em --estimate variance");
  for (const std::string& emitted : arguments.words_of("emit")) {
    require(emitted != "centre" || is_repeated(name),
            "--emit centre requires --scheme em or mean-shift");
    require((emitted != "variance" && emitted != "prior") || name == "em",
            fmt::format("--emit {} requires --scheme em", emitted));
  }
  if (!is_repeated(name)) return std::nullopt;
  require(arguments.given("iterations"), fmt::format("--scheme {} requires --iterations T", name));
  Repetition repetition;
  repetition.iterations = arguments.integer("iterations").value();
  repetition.estimates_variance = estimates("variance");
  repetition.estimates_priors = estimates("priors");
  repetition.min_variance = arguments.number("min-variance").value();
  return repetition;
}

void require_repeatable(const ComputeOptions& options, const AttentionInput& input) {
  if (options.scores.bf16) {
    throw Error(Failure::usage,
                fmt::format("--precision bf16 does not go with --scheme {}", options.name));
  }
  const ScoreRecipe recipe = input.recipe(options.scheme.scheme);
  const double least = options.repetition->min_variance;
  if (options.repetition->estimates_variance && input.q && recipe.scale > 0) {
    const double first = first_variance(recipe, input.depth);
    if (input.depth > 0 && first < least) {
      throw Error(
          Failure::usage,
          fmt::format("variances start at {}/scale = {:.6g}, below --min-variance {}",
                      recipe.energy == &scaled_dot_energy() ? "sqrt(d)" : "1", first, least));
    }
  }
  require_repetition(*options.repetition, options.scheme.scheme, recipe,
                     input.q ? std::optional(input.depth) : std::nullopt,
                     !input.bias || input.bias->cols == 1, input.sink.has_value());
}

std::vector<std::pair<std::string, Setting>> repetition_settings(const ComputeOptions& options) {
  const Repetition& repetition = *options.repetition;
  std::vector<std::pair<std::string, Setting>> settings = {
      {"attn_repeated", std::int64_t{repetition.iterations}}};
  if (options.scheme.scheme != Scheme::dnas) return settings;
  std::vector<std::string> estimated;
  if (repetition.estimates_variance) estimated.emplace_back("variance");
  if (repetition.estimates_priors) estimated.emplace_back("priors");
  settings.emplace_back("attn_estimate", fmt::format("{}", fmt::join(estimated, ",")));
  if (repetition.estimates_variance) {
    settings.emplace_back("attn_min_variance", repetition.min_variance);
  }
  return settings;
}

}  // namespace attn::tools
