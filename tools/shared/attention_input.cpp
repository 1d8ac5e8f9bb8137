#include "shared/attention_input.hpp"

#include <fmt/format.h>

#include "score/energy.hpp"
#include "shared/matrix_operand.hpp"
#include "tensor/error.hpp"

namespace attn::tools {
namespace {

// q or k; where they are missing, what else the bundle could be read for.
io::InputDataset vectors(const io::InputBundle& bundle, const std::string& name) {
  try {
    return bundle.dataset(name);
  } catch (const Error& error) {
    if (!error.hint().empty() || !bundle.has("scores")) throw;
    throw Error(error.failure(), error.what(), "--from scores takes the dataset scores instead");
  }
}

}  // namespace

AttentionInput::AttentionInput(const io::InputBundle& bundle, const ScoreOptions& score_options,
                               bool with_values)
    : options(score_options) {
  if (options.source != ScoreOptions::Source::vectors) {
    const bool ready_made = options.source == ScoreOptions::Source::scores;
    const io::InputDataset dataset = bundle.dataset(ready_made ? "scores" : "weights");
    require_vectors(dataset, "(..., queries, keys)");
    const Shape& shape = dataset.shape();
    queries = shape[shape.size() - 2];
    keys = shape.back();
    leading = leading_axes(shape, 2);
    if (ready_made) scores = matrix_operand(bundle, "scores", leading, queries, keys);
  } else {
    const io::InputDataset q_data = vectors(bundle, "q");
    const io::InputDataset k_data = vectors(bundle, "k");
    require_vectors(q_data, "(..., queries, d)");
    require_vectors(k_data, "(..., keys, d)");
    const Shape& q_shape = q_data.shape();
    const Shape& k_shape = k_data.shape();
    if (q_shape.back() != k_shape.back()) {
      throw Error(Failure::input, fmt::format("{}: last axis is {}, {} has {}", k_data.address(),
                                              k_shape.back(), q_data.address(), q_shape.back()));
    }
    queries = q_shape[q_shape.size() - 2];
    keys = k_shape[k_shape.size() - 2];
    depth = q_shape.back();
    leading = result_axes(leading_axes(q_shape, 2), leading_axes(k_shape, 2), q_data.address(),
                          k_data.address());
    q.emplace(vectors_operand(q_data, leading, false));
    k.emplace(vectors_operand(k_data, leading, true));
  }
  problems = element_count(leading);
  causal = resolve_causal(options, queries, keys);

  if (with_values && bundle.has("v")) {
    const io::InputDataset v_data = bundle.dataset("v");
    require_vectors(v_data, "(..., keys, dv)");
    const Shape& v_shape = v_data.shape();
    if (v_shape[v_shape.size() - 2] != keys) {
      throw Error(
          Failure::input,
          fmt::format("{}: {} keys, {} has {}", v_data.address(), v_shape[v_shape.size() - 2],
                      k ? k->dataset.address() : scores->dataset.address(), keys));
    }
    v.emplace(vectors_operand(v_data, leading, true));
    value_depth = v_shape.back();
  }
  if (bundle.has("mask")) {
    mask.emplace(matrix_operand(bundle, "mask", leading, queries, keys));
    if (!is_integral(mask->dataset.dtype())) {
      throw Error(Failure::input,
                  fmt::format("{} has type {}, expected bool or an integer type",
                              mask->dataset.address(), name(mask->dataset.dtype())),
                  "a mask to be added to the scores is called bias");
    }
  }
  if (bundle.has("bias")) {
    bias.emplace(matrix_operand(bundle, "bias", leading, queries, keys));
    require_floating(bias->dataset);
  }
  for (const auto* operand : {&q, &k, &v, &scores, &bias}) {
    if (*operand && (*operand)->dataset.dtype() == DType::f64) any_float64 = true;
  }
}

std::vector<io::InputDataset> AttentionInput::datasets() const {
  std::vector<io::InputDataset> all;
  for (const auto* operand : {&q, &k, &v, &scores, &mask, &bias}) {
    if (*operand) all.push_back((*operand)->dataset);
  }
  return all;
}

std::string AttentionInput::place(Index problem) const {
  std::string text;
  for (const auto* operand : {&q, &k, &scores}) {
    if (*operand) text += (text.empty() ? "" : " and ") + (*operand)->dataset.address();
  }
  return problem_place(text, leading, problem);
}

std::int64_t AttentionInput::head_bytes(std::size_t element_size, std::int64_t dense_limit) const {
  const auto element = static_cast<std::int64_t>(element_size);
  std::int64_t bytes = (queries * depth + keys * depth + keys * value_depth) * element;
  if (q) bytes += product_energy_bytes(options.energy, queries, keys, depth, element_size);
  const auto held = [&](const std::optional<Operand>& operand, std::size_t size) {
    if (operand) bytes += matrix_source_bytes(*operand, size, dense_limit);
  };
  held(scores, element_size);
  held(bias, element_size);
  held(mask, 1);
  return bytes;
}

}  // namespace attn::tools
