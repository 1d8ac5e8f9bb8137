#include "common/attention_input.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "attnkit/error.hpp"
#include "common/foreign_names.hpp"
#include "energy/table.hpp"
#include "scheme/scheme_description.hpp"
#include "tensor/batch.hpp"

namespace attn::tools {
namespace {

using Layout = ScoreOptions::Layout;

// A dataset from which scores are computed. If it is missing, the error suggests other sources that
// the bundle has.
ArraySource required(const io::InputBundle& bundle, const std::string& name) {
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

[[noreturn]] void refuse_lengths(const std::string& a, const char* axis, Index length,
                                 const std::string& b, Index other) {
  throw Error(Failure::input, fmt::format("{}: {} is {}, {} has {}", a, axis, length, b, other));
}

Vectors as_they_are(const ArraySource& dataset, const Shape& leading, bool grouped, Layout layout) {
  Operand operand = vectors_operand(dataset, leading, grouped, layout);
  const Index rows = operand.rows;
  const Index cols = operand.cols;
  return Vectors{std::move(operand), {}, {}, rows, cols};
}

// The input's own leading axes stand before that of the heads.
Shape before_heads(const ArraySource& input) {
  Shape leading = leading_axes(input.shape(), 2);
  if (!leading.empty()) leading.push_back(1);
  return leading;
}

// wq, wk or wv (…, H, D, d) for an input (…, L, D).
ArraySource projection_weights(const io::InputBundle& bundle, const std::string& name,
                               const ArraySource& input) {
  ArraySource weights = required(bundle, name);
  require_vectors(weights, "(heads, D, d)");
  const Shape& shape = weights.shape();
  const Index inner = shape[shape.size() - 2];
  if (inner != input.shape().back()) {
    refuse_lengths(weights.address(), "the axis before the last", inner, input.address(),
                   input.shape().back());
  }
  return weights;
}

Vectors projected(const io::InputBundle& bundle, const std::string& bias_name,
                  const ArraySource& input, const ArraySource& weights, const Shape& leading,
                  bool grouped) {
  const Shape own = before_heads(input);
  Operand x{input, leading_axes(input.shape(), 2), input.shape()[input.shape().size() - 2],
            input.shape().back(), LeadingMap(leading, own, false, input.address())};
  Operand w = vectors_operand(weights, leading, grouped, Layout::heads_first);
  Vectors made{std::move(x), std::move(w), {}, 0, 0};
  made.rows = made.input.rows;
  made.cols = made.weights->cols;
  if (bundle.has(bias_name)) {
    made.bias = vector_operand(bundle.dataset(bias_name), leading, grouped, made.cols);
  }
  return made;
}

void require_heads_of_keys(const Vectors& k, const std::optional<Vectors>& v) {
  std::vector<HeadsOf> arrays;
  const auto add = [&](const Vectors& made) {
    const Operand& heads = made.weights ? *made.weights : made.input;
    arrays.push_back({heads.dataset.address(), heads.leading});
    if (made.bias) arrays.push_back({made.bias->dataset.address(), made.bias->leading});
  };
  add(k);
  if (v) add(*v);
  require_same_heads(arrays);
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
                               bool with_values, const std::vector<Scheme>& schemes)
    : options(score_options) {
  for (const Scheme scheme : schemes) {
    (description_of(scheme).has_preference() ? with_preference : with_plain) = true;
  }
  if (options.bf16 && options.source != ScoreOptions::Source::vectors) {
    throw Error(Failure::usage, "--precision bf16 requires scores of q and k (--from qk)");
  }
  switch (options.source) {
    case ScoreOptions::Source::vectors:
    case ScoreOptions::Source::templates:
      take_vectors(bundle, with_values);
      break;
    case ScoreOptions::Source::projection:
      take_projections(bundle, with_values);
      break;
    case ScoreOptions::Source::scores:
    case ScoreOptions::Source::cost:
    case ScoreOptions::Source::weights:
      take_ready_made(bundle);
      if (with_values) take_values_of_ready_made(bundle);
      break;
  }
  problems = element_count(leading);
  take_parts(bundle);
  set_recipes();
  if (q) take_energy_operands(bundle);
  take_terms(bundle);
  take_sink(bundle, schemes);
  if (v && bundle.has("gate")) take_gate(bundle);
  for (const Operand* operand : operands()) {
    const bool counts = !mask || operand != &*mask;
    if (counts && operand->dataset.dtype() == DType::f64) any_float64 = true;
  }
  require_no_foreign_names(bundle, options);
}

void AttentionInput::take_ready_made(const io::InputBundle& bundle) {
  const bool of_cost = options.source == ScoreOptions::Source::cost;
  const bool none = options.source == ScoreOptions::Source::weights;
  const std::string name = none ? "weights" : of_cost ? "cost" : "scores";
  const ArraySource dataset = bundle.dataset(name);
  require_vectors(dataset, "(..., queries, keys)");
  const Shape& shape = dataset.shape();
  queries = shape[shape.size() - 2];
  keys = shape.back();
  leading = leading_axes(shape, 2);
  if (none) return;
  scores = matrix_operand(bundle.dataset(name), leading, queries, keys);
  scores->of_cost = of_cost;
}

void AttentionInput::take_vectors(const io::InputBundle& bundle, bool with_values) {
  const bool templates = options.source == ScoreOptions::Source::templates;
  const ArraySource q_data = required(bundle, templates ? "z" : "q");
  const ArraySource k_data = required(bundle, templates ? "t" : "k");
  const bool inside = options.layout == Layout::heads_inside;
  require_vectors(q_data, inside ? "(..., queries, heads, d)" : "(..., queries, d)");
  require_vectors(k_data, inside ? "(..., keys, heads, d)" : "(..., keys, d)");
  const Shape q_shape = heads_first(q_data, options.layout);
  const Shape k_shape = heads_first(k_data, options.layout);
  leading = result_axes(leading_axes(q_shape, 2), leading_axes(k_shape, 2), q_data.address(),
                        k_data.address());
  q = as_they_are(q_data, leading, false, options.layout);
  k = as_they_are(k_data, leading, true, options.layout);
  queries = q->rows;
  keys = k->rows;
  depth = q->cols;
  if (!with_values || !bundle.has("v")) return;
  const ArraySource v_data = bundle.dataset("v");
  require_vectors(v_data, inside ? "(..., keys, heads, dv)" : "(..., keys, dv)");
  v = as_they_are(v_data, leading, true, options.layout);
  require_heads_of_keys(*k, v);
  v_head_dim = v->cols;
  if (v->rows == keys) return;
  throw Error(Failure::input, fmt::format("{}: {} keys, {} has {}", v_data.address(), v->rows,
                                          k_data.address(), keys));
}

void AttentionInput::take_projections(const io::InputBundle& bundle, bool with_values) {
  const ArraySource x = required(bundle, "x");
  const ArraySource y = bundle.has("y") ? bundle.dataset("y") : x;
  require_vectors(x, "(..., queries, D)");
  require_vectors(y, "(..., keys, D)");
  const ArraySource wq = projection_weights(bundle, "wq", x);
  const ArraySource wk = projection_weights(bundle, "wk", y);
  // Every position of x with every head, and the same of y.
  const auto axes_of = [](const ArraySource& input, const ArraySource& weights) {
    return result_axes(before_heads(input), leading_axes(weights.shape(), 2), input.address(),
                       weights.address());
  };
  leading = result_axes(axes_of(x, wq), axes_of(y, wk), x.address() + " times " + wq.address(),
                        y.address() + " times " + wk.address());
  q = projected(bundle, "bq", x, wq, leading, false);
  k = projected(bundle, "bk", y, wk, leading, true);
  queries = q->rows;
  keys = k->rows;
  depth = q->cols;
  if (with_values && bundle.has("wv")) {
    v = projected(bundle, "bv", y, projection_weights(bundle, "wv", y), leading, true);
    v_head_dim = v->cols;
  }
  require_heads_of_keys(*k, v);
}

void AttentionInput::take_values_of_ready_made(const io::InputBundle& bundle) {
  if (!bundle.has("v")) return;
  const ArraySource v_data = bundle.dataset("v");
  require_vectors(v_data, "(..., keys, dv)");
  v = as_they_are(v_data, leading, true, options.layout);
  v_head_dim = v->cols;
  if (v->rows == keys) return;
  throw Error(Failure::input, fmt::format("{}: {} keys, {} has {}", v_data.address(), v->rows,
                                          scores ? scores->dataset.address() : "weights", keys));
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
  plain = preferring = recipe;
  preferring.scale *= options.alpha;
  plain.energy = &energy_in_use(options, Scheme::unas);
  preferring.energy = &energy_in_use(options, Scheme::fenchel);
  bf16 = options.bf16;
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
  return all;
}

}  // namespace attn::tools
