#include "common/result_inputs.hpp"

namespace attn::tools {
namespace {

using Names = std::set<std::string>;

void add(const std::optional<Vectors>& vectors, Names& names) {
  if (!vectors) return;
  names.insert(vectors->input.dataset.name());
  if (vectors->weights) names.insert(vectors->weights->dataset.name());
  if (vectors->bias) names.insert(vectors->bias->dataset.name());
}

}  // namespace

Names score_inputs(const AttentionInput& input) {
  Names names = {"mask", "bias", "key_length"};
  add(input.q, names);
  add(input.k, names);
  for (const auto* operand : {&input.scores, &input.w, &input.w1, &input.w2, &input.rel_bias}) {
    if (*operand) names.insert((*operand)->dataset.name());
  }
  if (input.with_fenchel) names.insert("preference");
  if (input.w1) names.insert("b1");
  if (input.options.source == ScoreOptions::Source::projection) {
    names.insert({"y", "bq", "bk"});
  }
  return names;
}

Names output_inputs(const AttentionInput& input) {
  Names names = score_inputs(input);
  add(input.v, names);
  if (input.options.source == ScoreOptions::Source::projection) names.insert("bv");
  return names;
}

}  // namespace attn::tools
