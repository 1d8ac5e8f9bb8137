// The effect of a run of attn-compute on the results in a bundle.

#include <cstdint>
#include <optional>

#include "attn_compute/compute_task.hpp"
#include "attn_compute/repeated_scheme.hpp"
#include "attnkit/error.hpp"
#include "common/results/result_inputs.hpp"
#include "common/results/result_table.hpp"
#include "scheme/scheme_description.hpp"

namespace attn::tools {
namespace {

Settings settings_of(const cli::Arguments& arguments, const ComputeTask& task) {
  const SchemeOptions& scheme = task.options.scheme;
  const SchemeDescription& description = description_of(scheme.scheme);
  Settings settings;
  for (const auto& [name, value] :
       score_settings(task.options.scores, scheme.scheme, task.input.causal)) {
    settings[name] = value;
  }
  settings["attn_scheme"] = task.options.name;
  if (task.options.repetition) {
    for (const auto& [name, value] : repetition_settings(task.options)) settings[name] = value;
  }
  settings["attn_precision"] = precision_name(task.options.scores, task.f64);
  if (description.has_preference()) settings["attn_alpha"] = task.options.scores.alpha;
  if (description.is_transport()) settings["attn_gamma"] = task.options.scores.gamma;
  if (description.is_mixture() && arguments.number("hybrid")) {
    settings["attn_hybrid"] = *arguments.number("hybrid");
  }
  if (!description.is_iterated()) return settings;
  // The number of iterations needed is known only afterwards, but equal options give equal results.
  if (scheme.stopping.iterations)
    settings["attn_iterations"] = std::int64_t{*scheme.stopping.iterations};
  if (!scheme.stopping.fixed()) {
    settings["attn_tolerance"] = scheme.stopping.tolerance.value_or(
        usual_tolerance(task.f64 ? sizeof(double) : sizeof(float)));
  }
  return settings;
}

// Whether the dataset queries, or its absence, describes the rows that this run writes.
bool same_queries(const io::InputBundle& section, const std::optional<RowSelection>& chosen) {
  const io::InputBundle bundle = section.without_named();
  if (!bundle.has("queries")) return !chosen;
  const ArraySource dataset = bundle.dataset("queries");
  if (!chosen || dataset.shape() != Shape{chosen->count()} || !is_integral(dataset.dtype())) {
    return false;
  }
  std::vector<std::int64_t> rows(static_cast<std::size_t>(chosen->count()));
  dataset.read({0}, dataset.shape(), rows.data());
  Index last = -1;
  for (const std::int64_t row : rows) {
    if (row <= last || !chosen->contains(row)) return false;
    last = row;
  }
  return true;
}

}  // namespace

RunEffect ComputeTask::effect(const cli::Arguments& arguments) const {
  RunEffect effect;
  effect.tool = arguments.tool;
  effect.settings = settings_of(arguments, *this);
  for (const std::string& name : result_family(effect.tool)->attributes) {
    if (name != "attn_status") effect.attributes[name] = setting_of(effect.settings, name);
  }
  std::set<std::string> scores = score_inputs(input);
  std::set<std::string> outputs = output_inputs(input);
  if (description_of(options.scheme.scheme).is_mixture() && !arguments.number("hybrid")) {
    scores.insert("hybrid");
    outputs.insert("hybrid");
  }
  bool by_query = options.join;
  for (const ResultKind& kind : result_kinds()) {
    if (!options.emits(kind.name)) continue;
    std::set<std::string>& from = effect.results[kind.name];
    from = kind.name == "out" ? outputs : scores;
    if (!kind.by_choice) continue;
    by_query = true;
    from.insert("queries");
  }
  if (options.join) {
    outputs.insert({"wo", "bo"});
    effect.results["joined"] = outputs;
    if (options.queries) effect.results["joined"].insert("queries");
  }
  outputs.insert(options.join ? "grad_joined" : "grad_out");
  for (const GradientKind& gradient : options.gradients) effect.results[gradient.name] = outputs;
  // Gradients of one loss must not stay beside gradients of another.
  if (options.emits_gradients()) effect.changed.insert(options.join ? "grad_out" : "grad_joined");
  if (options.queries) effect.results["queries"] = {"queries"};
  // Rows of other queries, and their list, must not stay with these.
  if (!by_query || arguments.only) return effect;
  (same_queries(bundle, options.queries) ? effect.unchanged : effect.changed).insert("queries");
  return effect;
}

}  // namespace attn::tools
