#pragma once

#include <optional>
#include <string>

#include "tensor/shape.hpp"

namespace attn::tools {

/// The kind of model, and the numbers of heads and T5's buckets in a Hugging Face config.json, as
/// far as it has them.
struct ModelConfig {
  std::optional<Index> heads;
  std::optional<Index> kv_heads;
  std::optional<Index> head_size;
  std::string model_type;             ///< "phi3", or empty
  std::optional<Index> max_distance;  ///< for T5's relative positions
  std::string rotary;                 ///< a member that indicates rotary positions, or empty
};

/// Empty if there is no such file. Throws Error(input) if it is not a JSON object, is deeper than
/// 64 levels or larger than 16 MiB, a number of heads is not a positive integer, or a member
/// changes the scores of this layer in a way that `model` does not: a soft cap, a window, a scale.
ModelConfig read_model_config(const std::string& path, const std::string& model, Index layer);

}  // namespace attn::tools
