#pragma once

#include <optional>
#include <string>
#include <vector>

#include "io/input.hpp"
#include "tensor_convert/produced.hpp"

namespace attn::tools {

/// Which attention of which model is meant, in the terms of Hugging Face's checkpoints.
struct ModelLayer {
  std::string model;  ///< bert, gpt2, t5, llama
  Index layer = 0;
  std::string part = "encoder";   ///< t5: encoder, decoder, or cross
  std::optional<Index> heads;     ///< of the queries
  std::optional<Index> kv_heads;  ///< llama: of keys and values
  std::string config;             ///< path of a config.json, whether or not it is there
};

/// The layer's weights by head, so that q_h = x wq[h] + bq[h]: wq (H, D, d), wk and wv (Hk, D, d);
/// bq, bk, bv where the model has them (H, d); t5: rel_bias (buckets, H), which block 0 holds for
/// all, and none for cross. Elements as stored. The names of the checkpoint may begin with "bert.",
/// "transformer.", "model." or none of these. The files of a checkpoint in parts are searched in
/// turn.
///
/// Stored are: bert, t5, llama (out, in); gpt2 (in, out), with q, k and v side by side in c_attn.
/// Heads come from `heads`, else t5's relative bias, else `config`. Throws Error(input): no such
/// tensor (saying which layers there are), shapes that do not fit each other; Error(usage): the
/// number of heads is not known.
std::vector<Produced> model_weights(const std::vector<io::InputBundle>& bundles,
                                    const ModelLayer& wanted);

}  // namespace attn::tools
