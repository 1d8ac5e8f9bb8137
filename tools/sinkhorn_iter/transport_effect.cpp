// The effect of a run of sinkhorn-iter on the results in a bundle.

#include <cmath>
#include <cstdint>

#include "common/results/result_inputs.hpp"
#include "common/results/result_table.hpp"
#include "sinkhorn_iter/transport_task.hpp"

namespace attn::tools {

RunEffect TransportTask::effect(const cli::Arguments& arguments) const {
  RunEffect effect;
  effect.tool = arguments.tool;
  std::set<std::string> from = score_inputs(input);
  from.insert({"a", "b", histogram_weights});
  for (const std::string& name : emitted) {
    effect.results[name] = from;
    if (!name.starts_with("grad_")) continue;
    effect.results[name].insert({"grad_plan", "grad_row_potential", "grad_col_potential",
                                 "grad_barycentre", "grad_row_self_potential",
                                 "grad_col_self_potential"});
  }

  Settings& settings = effect.settings;
  if (!is_of_scheme()) {
    // Only the order of axes belongs to the tensors.
    for (const auto& [name, value] : score_settings(scores, Scheme::sinkhorn, input.causal)) {
      if (name == "attn_layout") settings[name] = value;
    }
    for (const std::string& name : result_family(effect.tool)->attributes) {
      if (name != "attn_status") effect.attributes[name] = setting_of(settings, name);
    }
    for (const auto& [name, value] : score_settings(scores, Scheme::sinkhorn, input.causal)) {
      settings[name] = value;
    }
    settings["attn_precision"] = f64 ? "f64" : "f32";
    settings["verb"] = arguments.verb;
    if (exact) {
      settings["solver"] = method_word(exact->method);
      settings["gap"] = exact->gap;
      settings["iterations"] = std::int64_t{exact->max_iterations};
      settings["relax"] = exact->relaxation;
      return effect;
    }
    if (of_cost) settings["epsilon"] = scores.epsilon;
    if (solver.stopping.iterations)
      settings["iterations"] = std::int64_t{*solver.stopping.iterations};
    if (solver.stopping.tolerance) settings["tolerance"] = *solver.stopping.tolerance;
    return effect;
  }
  for (const auto& [name, value] : score_settings(scores, Scheme::sinkhorn, input.causal)) {
    settings[name] = value;
  }
  settings["attn_scheme"] = "sinkhorn";
  settings["attn_precision"] = f64 ? "f64" : "f32";
  if (of_cost) settings["attn_epsilon"] = scores.epsilon;
  if (of_cost || a || penalties) settings["attn_marginals"] = "given";
  // The number of iterations needed is known only afterwards, but equal options give equal results.
  if (solver.stopping.iterations)
    settings["attn_iterations"] = std::int64_t{*solver.stopping.iterations};
  if (solver.stopping.tolerance) settings["attn_l1_tolerance"] = *solver.stopping.tolerance;
  for (const std::string& name : result_family(effect.tool)->attributes) {
    if (name != "attn_status") effect.attributes[name] = setting_of(settings, name);
  }
  settings["relax"] = solver.relaxation;
  if (diverges) settings["verb"] = arguments.verb;
  if (penalties) {
    // Marks are JSON, which has no infinity.
    const auto setting = [](double penalty) -> Setting {
      return std::isinf(penalty) ? Setting(std::string("inf")) : Setting(penalty);
    };
    settings["unbalanced_a"] = setting(penalties->row);
    settings["unbalanced_b"] = setting(penalties->col);
  }
  settings["anneal"] = std::int64_t{solver.anneals};
  if (start) settings["start"] = std::string("stored");
  if (gradient == SolutionGradient::unrolled) settings["gradient"] = std::string("unrolled");
  return effect;
}

}  // namespace attn::tools
