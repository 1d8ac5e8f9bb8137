// The effect of a run of lambda-solve on the results in a bundle.

#include <cstdint>

#include "common/results/result_inputs.hpp"
#include "lambda_solve/dual_task.hpp"

namespace attn::tools {

RunEffect DualTask::effect(const cli::Arguments& arguments) const {
  RunEffect effect;
  effect.tool = arguments.tool;
  std::set<std::string> scores = score_inputs(input);
  std::set<std::string> outputs = output_inputs(input);
  if (cost_dataset) {
    scores.insert("cost");
    outputs.insert("cost");
  }
  for (const std::string& name : options.emitted) {
    effect.results[name] = name == "out" || name == "out_deviation" ? outputs : scores;
  }
  Settings& settings = effect.settings;
  settings["attn_dual_divergence"] = options.gamma ? "ot" : "kl";
  settings["attn_dual_alpha"] = options.radius ? Setting() : Setting(options.alpha);
  settings["attn_dual_radius"] = options.radius ? Setting(*options.radius) : Setting();
  settings["attn_dual_scale"] = options.template_scale;
  settings["attn_dual_evidence_scale"] = options.evidence_scale;
  settings["attn_dual_gamma"] = options.gamma ? Setting(*options.gamma) : Setting();
  effect.attributes = settings;
  for (const auto& [name, value] : score_settings(options.scores, Scheme::unas, input.causal)) {
    settings[name] = value;
  }
  if (options.scores.source == ScoreOptions::Source::templates) {
    // Given templates and evidence have no energy.
    settings.erase("attn_energy");
    settings.erase("attn_source");
    settings["source"] = "templates";
  }
  settings["precision"] = f64 ? "f64" : "f32";
  settings["max_iterations"] = std::int64_t{options.solver.max_iterations};
  if (options.solver.gradient_tolerance) {
    settings["gradient_tolerance"] = *options.solver.gradient_tolerance;
  } else {
    settings["tolerance"] = options.solver.tolerance;
  }
  return effect;
}

}  // namespace attn::tools
