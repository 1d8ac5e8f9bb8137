#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/results/settings.hpp"
#include "tensor/shape.hpp"
#include "tensor_convert/rotary_settings.hpp"

namespace attn::tools {

/// The kind of model, the numbers of heads and T5's buckets, and what a layer does to its queries,
/// keys and scores, in a Hugging Face config.json, as far as it has them.
struct ModelConfig {
  std::optional<Index> heads;
  std::optional<Index> kv_heads;
  std::optional<Index> head_size;
  bool shares_keys = false;             ///< one head of keys for all of the queries
  std::string model_type;               ///< "phi3", or empty
  std::optional<Index> max_distance;    ///< for T5's relative positions
  const ModelFamily* family = nullptr;  ///< of gpt2 and llama; null: config.json does not say
  std::optional<RotarySettings> rotary;
  bool has_norm = false;  ///< of queries and keys
  double epsilon = 0;     ///< of this norm
  /// Options of the tools that the layer needs: a scale, a soft cap, a window.
  std::vector<std::pair<std::string, Setting>> attributes;
  std::string other_heads = {};  ///< what config.json says, if it is not the number that is given
};

/// Empty if there is no such file. Throws Error(input) if it is not a JSON object, is deeper than
/// 64 levels or larger than 16 MiB, a number is out of range, the model is of a type that is not
/// known, or a member changes the scores of this layer in a way that `model` does not.
ModelConfig read_model_config(const std::string& path, const std::string& model, Index layer);

}  // namespace attn::tools
