#include "common/results/result_inputs.hpp"

#include "common/heads/packed_sequences.hpp"
#include "common/options/transform_names.hpp"

namespace attn::tools {
namespace {

using NameSet = std::set<std::string>;

void add(const std::optional<Vectors>& vectors, NameSet& names) {
  if (!vectors) return;
  names.insert(vectors->input.dataset.name());
  if (vectors->weights) names.insert(vectors->weights->dataset.name());
  if (vectors->bias) names.insert(vectors->bias->dataset.name());
}

}  // namespace

NameSet score_inputs(const AttentionInput& input) {
  NameSet names = {"mask",        "bias",      "query_length", "key_length",
                   "query_start", "key_start", "query_offset", "sink"};
  for (const std::string& name : packing_names()) names.insert(name);
  add(input.q, names);
  add(input.k, names);
  for (const auto* operand : {&input.scores, &input.rel_bias}) {
    if (*operand) names.insert((*operand)->dataset.name());
  }
  for (std::size_t n = 0; n < input.energy_operands.size(); ++n) {
    const auto& operand = input.energy_operands[n];
    names.insert(operand ? operand->dataset.name() : input.energy().operands()[n].name);
  }
  if (input.with_preference) names.insert("preference");
  if (input.preferring.gamma) names.insert("cost");
  if (input.options.source == ScoreOptions::Source::projection) {
    names.insert({"y", "bq", "bk"});
    names.insert(transform_names().begin(), transform_names().end());
  }
  return names;
}

NameSet output_inputs(const AttentionInput& input) {
  NameSet names = score_inputs(input);
  add(input.v, names);
  names.insert("gate");
  if (input.options.source == ScoreOptions::Source::projection) names.insert("bv");
  return names;
}

}  // namespace attn::tools
