#include "common/heads/attention_input.hpp"

#include <algorithm>
#include <utility>

#include "attnkit/error.hpp"
#include "common/heads/foreign_names.hpp"
#include "common/heads/head_transforms.hpp"
#include "common/options/index_list.hpp"
#include "common/options/transform_names.hpp"
#include "energy/table.hpp"
#include "scheme/scheme_description.hpp"

namespace attn::tools {
namespace {

// A tool has nothing to compute without numbers; plans may.
ArraySource not_empty(const io::InputBundle& bundle, const std::string& name) {
  ArraySource source = bundle.dataset(name);
  require_no_empty_axis(source);
  return source;
}

std::optional<ArraySource> given(const io::InputBundle& bundle, const std::string& name) {
  return bundle.has(name) ? std::optional(not_empty(bundle, name)) : std::nullopt;
}

// The dataset must not be missing: else the error suggests other sources of scores that the bundle
// has.
ArraySource required(const io::InputBundle& bundle, const std::string& name) {
  if (bundle.has(name)) return not_empty(bundle, name);
  try {
    return bundle.dataset(name);
  } catch (const Error& error) {
    if (!error.hint().empty()) throw;
    std::string hint;
    if (bundle.has("scores")) hint = "--from scores takes the dataset scores instead";
    if (bundle.has("x") && bundle.has("wq"))
      hint = "--from projection computes q and k from x, wq and wk";
    throw Error(error.failure(), error.what(), hint);
  }
}

const EnergyDescription& energy_in_use(const ScoreOptions& options, Scheme scheme) {
  const EnergyDescription& energy = energy_called(options.energy_of(scheme));
  return options.bf16 ? in_bf16(energy) : energy;
}

}  // namespace

void require_layout_effect(const cli::Arguments& arguments, const AttentionInput& input) {
  if (!arguments.given("layout") || input.v) return;
  if (input.options.source == ScoreOptions::Source::vectors) return;
  throw Error(Failure::usage, "--layout has no effect: no q, k and v are read, no out is written");
}

AttentionInput::AttentionInput(const io::InputBundle& bundle, const ScoreOptions& score_options,
                               bool with_values, const std::vector<Scheme>& schemes,
                               Shape wider_axes)
    : options(score_options) {
  wider = std::move(wider_axes);
  for (const Scheme scheme : schemes) {
    (description_of(scheme).has_preference() ? with_preference : with_plain) = true;
    if (description_of(scheme).is_transport()) preferring.gamma = options.gamma;
  }
  if (options.bf16 && options.source != ScoreOptions::Source::vectors) {
    throw Error(Failure::usage, "--precision bf16 requires scores of q and k (--from qk)");
  }
  const PackedSequences packed(bundle);
  if (options.by_sequence && packed.any()) front = {packed.most_sequences()};
  switch (options.source) {
    case ScoreOptions::Source::vectors:
      // With wq, they belong to --from projection.
      if (!bundle.has("wq")) {
        require_no_transforms(bundle, "norms and rotary positions are for --from projection");
      }
      take_vectors_of(bundle, with_values);
      break;
    case ScoreOptions::Source::templates:
      take_vectors_of(bundle, with_values);
      break;
    case ScoreOptions::Source::projection:
      take_projections_of(bundle, with_values);
      break;
    case ScoreOptions::Source::scores:
    case ScoreOptions::Source::cost:
    case ScoreOptions::Source::weights:
      take_ready_made_of(bundle, with_values);
      break;
  }
  axes.leading = leading;
  take_parts(bundle);
  if (packed.any()) take_packings(packed, bundle.description(), schemes);
  set_recipes();
  if (q) {
    take_energy_operands([&](const EnergyOperand& operand) {
      const bool absent = !operand.required && !bundle.has(operand.name);
      return absent ? std::nullopt : std::optional(bundle.dataset(operand.name));
    });
  }
  take_terms(bundle);
  take_sink(bundle, schemes);
  if (v && bundle.has("gate")) take_gate(bundle.dataset("gate"), options.layout);
  for (const Operand* operand : operands()) {
    const bool counts = !mask || operand != &*mask;
    if (counts && operand->dataset.dtype() == DType::f64) any_float64 = true;
  }
  for (const ArraySource& dataset : transform_datasets) {
    // Angles and epsilon are float64 in every precision.
    const bool counts = dataset.name() != "norm_epsilon" && !dataset.name().starts_with("rotary");
    if (counts && dataset.dtype() == DType::f64) any_float64 = true;
  }
  require_no_foreign_names(bundle, options);
  stored_queries = queries;
  stored_keys = keys;
  if (front.empty()) return;
  require_no_front_axis(bundle);
  queries = keys = 0;
  for (const OwnPart& part : parts) {
    queries = std::max(queries, part.queries());
    keys = std::max(keys, part.keys());
  }
}

void AttentionInput::take_vectors_of(const io::InputBundle& bundle, bool with_values) {
  const bool templates = options.source == ScoreOptions::Source::templates;
  const ArraySource q_source = required(bundle, templates ? "z" : "q");
  const ArraySource k_source = required(bundle, templates ? "t" : "k");
  take_vectors(q_source, k_source, with_values ? given(bundle, "v") : std::nullopt, options.layout);
}

void AttentionInput::take_projections_of(const io::InputBundle& bundle, bool with_values) {
  const ArraySource x = required(bundle, "x");
  ProjectionSources sources{x, x, required(bundle, "wq"), required(bundle, "wk"), {}, {}, {}, {}};
  if (const auto y = given(bundle, "y")) sources.y = *y;
  sources.bq = given(bundle, "bq");
  sources.bk = given(bundle, "bk");
  if (with_values) sources.wv = given(bundle, "wv");
  if (sources.wv) sources.bv = given(bundle, "bv");
  take_projections(sources);
  transform_datasets = take_transforms(bundle, leading, *q, *k);
  if (options.query_offset && !by_position()) {
    throw Error(Failure::usage,
                "--query-offset has no effect without --causal, --window, --relative-bias or a "
                "dataset rotary");
  }
}

bool AttentionInput::by_position() const {
  return options.by_position() || (q && q->transform != nullptr && q->transform->rotary);
}

void AttentionInput::take_ready_made_of(const io::InputBundle& bundle, bool with_values) {
  const bool of_cost = options.source == ScoreOptions::Source::cost;
  if (options.source == ScoreOptions::Source::weights) {
    take_weights(not_empty(bundle, "weights"));
  } else {
    take_scores(not_empty(bundle, of_cost ? "cost" : "scores"), of_cost);
  }
  if (!with_values) return;
  if (const auto values = given(bundle, "v")) take_values(*values, options.layout);
}

void AttentionInput::set_recipes() {
  ScoreRecipe recipe;
  if (options.source == ScoreOptions::Source::cost) recipe.divisor = options.epsilon;
  recipe.causal = causal != Causal::none;
  recipe.window = options.window;
  recipe.softcap = options.softcap;
  recipe.relative = options.relative;
  recipe.heads = heads();
  recipe.scale = options.scale;
  const std::optional<double> gamma = preferring.gamma;
  plain = preferring = recipe;
  preferring.gamma = gamma;
  preferring.scale *= options.alpha / gamma.value_or(1);
  plain.energy = &energy_in_use(options, Scheme::unas);
  preferring.energy = &energy_in_use(options, Scheme::fenchel);
  bf16 = options.bf16;
}

void AttentionInput::choose_heads(const std::string& list, const std::string& where) {
  const RowSelection rows = parse_indices(list, {"heads", "head", where, heads()});
  if (rows.count() == heads()) return;
  axes.all = heads();
  for (const RowRange& range : rows.ranges()) {
    for (Index head = range.first; head < range.last; ++head) axes.chosen.push_back(head);
  }
  axes.leading.back() = rows.count();
  const Index count = element_count(axes.leading);
  for (Index head = 0; head < count; ++head) chosen.push_back(axes.problem(head));
}

std::vector<Index> AttentionInput::sequences() const {
  std::vector<Index> found;
  for (Index problem = 0; problem < problems; ++problem) found.push_back(problem / heads());
  return found;
}

Padding AttentionInput::padding() const {
  Padding all;
  for (Index n = 0; n < own_problems(); ++n) {
    const OwnPart& own = part(own_problem(n));
    all.add({queries - own.queries(), keys - own.keys()});
  }
  return all;
}

std::vector<ArraySource> AttentionInput::datasets() const {
  std::vector<ArraySource> all;
  for (const Operand* operand : operands()) all.push_back(operand->dataset);
  all.insert(all.end(), transform_datasets.begin(), transform_datasets.end());
  return all;
}

}  // namespace attn::tools
