#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/results/settings.hpp"
#include "io/input.hpp"
#include "tensor_convert/produced.hpp"

namespace attn::tools {

/// Selects one attention of a model, in the terms of Hugging Face's checkpoints.
struct ModelLayer {
  std::string model;  ///< bert, gpt2, t5, llama
  Index layer = 0;
  std::string part = "encoder";   ///< t5: encoder, decoder, or cross
  std::optional<Index> heads;     ///< number for the queries
  std::optional<Index> kv_heads;  ///< llama, gpt2: number for keys and values
  std::string config;             ///< path of a config.json, which need not exist
  bool ignores_config = false;    ///< it is not read
};

/// The weights of a layer, and other properties of the model.
struct ModelWeights {
  std::vector<Produced> datasets;
  std::vector<std::pair<std::string, Setting>> attributes;  ///< what its scores need
  std::string rotary;            ///< the sign of rotary positions, which are left out; or empty
  std::string other_heads = {};  ///< what `config` says if its heads are not those given; or empty
};

/// The layer's weights by head, so that q_h = x wq[h] + bq[h]: wq (H, D, d), wk and wv (Hk, D, d);
/// bq, bk, bv (H, d) if the model has them; for t5 rel_bias (buckets, H), which block 0 holds for
/// all layers, except for cross. Elements as stored. If `config` knows the family of the model,
/// also what it does to q and k: norms (head_norm), norm_epsilon, and rotary or rotary_interleaved
/// (rotary_numbers). Names in the checkpoint may have the prefix
/// of a model, such as "model.". The files of a checkpoint in parts are searched in
/// turn.
///
/// Stored shapes: bert, t5, llama (out, in); gpt2 (in, out), with q, k and v side by side in
/// c_attn. gpt2 and llama also stand for decoders with other fused projections (fused_heads.hpp),
/// which `config` says how to split. The number of heads comes from `heads`, else from t5's
/// relative bias, else from `config`. If `config` has another number than `heads`, its number of
/// heads of keys and its head size do not count either. Throws Error(input) if a tensor is missing
/// (listing the existing layers), shapes do not match, or the attention has other tensors or
/// settings that change its scores; Error(usage) if the number of heads is unknown.
ModelWeights model_weights(const std::vector<io::InputBundle>& bundles, const ModelLayer& wanted);

}  // namespace attn::tools
