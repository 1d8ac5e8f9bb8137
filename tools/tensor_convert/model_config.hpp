#pragma once

#include <optional>
#include <string>

#include "tensor/shape.hpp"

namespace attn::tools {

/// What a Hugging Face config.json says about heads and T5's buckets, as far as it does.
struct ModelConfig {
  std::optional<Index> heads;
  std::optional<Index> kv_heads;
  std::optional<Index> head_size;
  std::optional<Index> max_distance;  ///< of T5's relative positions
};

/// Nothing where there is no such file. Throws Error(input) where it is no JSON object, is deeper
/// than 64 levels or larger than 16 MiB, or a number of heads is no positive integer.
ModelConfig read_model_config(const std::string& path, const std::string& model);

}  // namespace attn::tools
