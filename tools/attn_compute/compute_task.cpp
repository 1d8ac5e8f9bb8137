#include "attn_compute/compute_task.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "attn_compute/repeated_scheme.hpp"
#include "attnkit/error.hpp"
#include "common/heads/score_source.hpp"
#include "common/options/index_list.hpp"
#include "common/options/scheme_settings.hpp"

namespace attn::tools {
namespace {

// Rejects options that have no effect.
void require_effect(const cli::Arguments& arguments, Scheme scheme, bool repeated) {
  require_effect_on(arguments, "hybrid", &SchemeDescription::is_mixture, {scheme});
  if (!repeated && arguments.given("iterations") && !description_of(scheme).is_iterated()) {
    throw Error(Failure::usage, "--iterations requires --scheme sinkhorn, em or mean-shift");
  }
  require_effect_on(arguments, "tolerance", &SchemeDescription::is_iterated, {scheme});
  require_effect_on(arguments, "alpha", &SchemeDescription::has_preference, {scheme});
  require_effect_on(arguments, "gamma", &SchemeDescription::is_transport, {scheme});
}

// The result scores would replace the scores that it is computed from.
void require_scores_kept(const cli::Arguments& arguments, const ComputeOptions& options) {
  const bool reads_scores = options.scores.source == ScoreOptions::Source::scores;
  if (!options.emits("scores") || !reads_scores || arguments.only) return;
  throw Error(Failure::usage,
              "--emit scores would replace the dataset scores, from which the run computes",
              "--only writes the results alone");
}

ComputeOptions resolve(const cli::Arguments& arguments, const io::InputBundle& bundle) {
  ComputeOptions options;
  options.name = arguments.text("scheme");
  options.repetition = repetition_of(arguments);
  options.scheme.scheme = scheme_each_time(options.name);
  // Attributes of an earlier run describe that run; attributes that came with the tensors describe
  // the tensors.
  const ScoreOptions recorded = resolve_score_options(arguments, &bundle);
  options.scores = recorded;
  if (bundle.text_attribute("attn_scheme")) {
    options.scores = resolve_score_options(arguments, nullptr);
    options.scores.layout =
        recorded.layout;  // the order of axes belongs to the tensors, not to that run
    options.settings_left = settings_left(recorded, options.scores);
  }
  if (description_of(options.scheme.scheme).is_transport()) {
    const auto gamma = arguments.number("gamma");
    if (!gamma) throw Error(Failure::usage, "--scheme transport requires --gamma G");
    options.scores.gamma = *gamma;
  }
  if (!options.repetition) options.scheme.stopping.iterations = arguments.integer("iterations");
  options.scheme.stopping.tolerance = arguments.number("tolerance");
  require_effect(arguments, options.scheme.scheme, options.repetition.has_value());
  const std::string values = options.scores.source == ScoreOptions::Source::projection ? "wv" : "v";
  const auto wanted = arguments.words_of("emit");
  options.emitted.insert(wanted.begin(), wanted.end());
  if (wanted.empty()) {
    options.emitted = {"row_potential", "col_potential"};
    if (bundle.has(values)) options.emitted.insert("out");
  }
  // The mixture cannot be recomputed without the third vector.
  if (options.emits("row_potential") && description_of(options.scheme.scheme).is_mixture()) {
    options.emitted.insert("unas_row_potential");
  }
  // A missing dataset is refused by name.
  if (options.emits("out")) static_cast<void>(bundle.dataset(values));
  options.join = arguments.flag("join");
  if (options.join) static_cast<void>(bundle.dataset(values));
  require_gradients(options, bundle, arguments.given("queries"));
  require_scores_kept(arguments, options);
  return options;
}

void choose_queries(const cli::Arguments& arguments, const AttentionInput& input,
                    const std::string& where, ComputeOptions& options) {
  const auto& kinds = result_kinds();
  const bool applies =
      options.join || std::any_of(kinds.begin(), kinds.end(), [&](const ResultKind& kind) {
        return kind.by_choice && options.emits(kind.name);
      });
  if (!applies) {
    throw Error(Failure::usage,
                "--queries applies to out, joined, weights, scores, energies and row_entropy, none "
                "of which is written",
                "--emit weights");
  }
  options.queries =
      parse_indices(arguments.text("queries"), {"queries", "query", where, input.queries});
}

// Gradients start from the output.
AttentionInput input_of(const io::InputBundle& bundle, const ComputeOptions& options) {
  const bool gradients = options.emits_gradients();
  AttentionInput input(bundle, options.scores, options.needs_out(), {options.scheme.scheme});
  input.shows_all = options.emits("energies");
  if (options.join) input.take_join(bundle);
  if (gradients) options.join ? input.take_grad_joined(bundle) : input.take_grad_out(bundle);
  return input;
}

}  // namespace

bool ComputeTask::suffices(const cli::Arguments& arguments, const io::InputBundle& bundle) {
  return has_scores(bundle, resolve_score_options(arguments, &bundle).source);
}

ComputeTask::ComputeTask(const cli::Arguments& arguments, io::InputBundle section)
    : bundle(std::move(section)),
      options(resolve(arguments, bundle)),
      input(input_of(bundle, options)),
      f64(arguments.f64.value_or(input.any_float64)) {
  require_layout_effect(arguments, input);
  if (options.repetition) require_repeatable(options, input);
  if (description_of(options.scheme.scheme).is_mixture()) {
    options.hybrid = hybrid_per_head(arguments, bundle, input, false);
  }
  options.gradients =
      gradient_kinds(options, input, bundle, arguments.number("hybrid").has_value());
  if (arguments.given("queries")) choose_queries(arguments, input, bundle.description(), options);
}

ProblemUnits ComputeTask::units() const {
  ProblemUnits units(input.problems);
  for (const GradientKind& kind : options.gradients) {
    units.sum(kind.name, blocks_by_problem(kind, input.problems));
  }
  if (options.join) units.sum("joined", input.sequences());
  return units;
}

void ComputeTask::report_params(cli::Report& report) const {
  report_score_options(options.scores, input.causal, report);
  report.params()["precision"] = precision_name(options.scores, f64);
}

}  // namespace attn::tools
