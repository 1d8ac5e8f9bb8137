#pragma once

#include <optional>
#include <string>
#include <vector>

#include "io/input.hpp"
#include "tensor_convert/model_weights.hpp"

namespace attn::tools {

/// The names of one attention's tensors in Hugging Face's checkpoints, without the prefix common to
/// all tensors of a model.
struct ModelNames {
  std::string base;           ///< of all of them: "layers.3.self_attn."
  std::string q, k, v;        ///< without ".weight" and ".bias"
  std::string relative_bias;  ///< empty if there is none
};

ModelNames names_in(const ModelLayer& wanted);

/// The tensor called `name`, with or without the prefix of a model, such as "model.", in the first
/// file that has it.
std::optional<ArraySource> find_tensor(const std::vector<io::InputBundle>& bundles,
                                       const std::string& name);

/// Throws Error(input) naming tensors of this attention that are not read and change its queries,
/// keys or scores, such as q_norm.weight: the projections alone are then not the model's.
void refuse_unread_tensors(const std::vector<io::InputBundle>& bundles, const ModelLayer& wanted);

/// Throws Error(input): there is no tensor `name`. The hint says where the tensor is by the index
/// beside the checkpoint, which layers exist, or what this layer has in its place.
[[noreturn]] void refuse_layer(const std::vector<io::InputBundle>& bundles,
                               const ModelLayer& wanted, const std::string& name);

}  // namespace attn::tools
