// The effect of a run of explain-away-stats on the results in a bundle.

#include <cstdint>

#include "common/results/result_inputs.hpp"
#include "explain_away_stats/column_task.hpp"
#include "scheme/scheme_description.hpp"

namespace attn::tools {
namespace {

Settings settings_of(const cli::Arguments& arguments, const ColumnTask& task) {
  const ColumnOptions& options = task.options();
  Settings settings;
  // The energy of unas, from which the energy of fenchel follows.
  for (const auto& [name, value] :
       score_settings(options.scores, Scheme::unas, task.input.causal)) {
    settings[name] = value;
  }
  settings["precision"] = precision_name(options.scores, options.f64);
  settings["attn_alpha"] = options.scores.alpha;
  const auto hybrid = arguments.number("hybrid");
  settings["attn_hybrid"] = hybrid ? Setting(*hybrid) : root_setting(task.bundle, "attn_hybrid");
  if (options.stopping.iterations)
    settings["attn_iterations"] = std::int64_t{*options.stopping.iterations};
  if (options.stopping.tolerance) settings["attn_tolerance"] = *options.stopping.tolerance;
  return settings;
}

}  // namespace

RunEffect ColumnTask::effect(const cli::Arguments& arguments) const {
  RunEffect effect;
  effect.tool = arguments.tool;
  effect.settings = settings_of(arguments, *this);
  const std::set<std::string> weights = {"weights", "row_potential", "col_potential",
                                         "unas_row_potential"};
  for (const std::string& scheme : options().schemes) {
    std::set<std::string> from = score_inputs(input);
    const SchemeDescription* const description = scheme_called(scheme);
    if (description == nullptr || description->is_mixture()) from.insert("hybrid");
    if (scheme == stored) from.insert(weights.begin(), weights.end());
    effect.results[scheme + "_col_sum"] = from;
    effect.results[scheme + "_row_entropy"] = from;
  }
  effect.results["queries_of_key"] = score_inputs(input);
  if (options().wants(stored)) effect.results["queries_of_key"].insert("weights");
  return effect;
}

}  // namespace attn::tools
