#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "io/input.hpp"
#include "tensor_convert/fused_heads.hpp"
#include "tensor_convert/model_weights.hpp"

namespace attn::tools {

/// The names of one attention's tensors in Hugging Face's checkpoints, without the prefix common to
/// all tensors of a model.
struct ModelNames {
  std::string base;           ///< of all of them: "layers.3.self_attn."
  std::string q, k, v;        ///< without ".weight" and ".bias"; the same if they are fused
  std::string relative_bias;  ///< empty if there is none
  Fusion fusion = Fusion::none;
};

/// The names that the model's tensors have: the first names of `wanted.model` under which there are
/// queries. Throws Error(input) if there are none: the hint says which index has them, which layers
/// exist, or what this layer has in their place.
ModelNames names_in(const std::vector<io::InputBundle>& bundles, const ModelLayer& wanted);

/// The tensor called `name`, with or without the prefix of a model, such as "model.", in the first
/// file that has it.
std::optional<ArraySource> find_tensor(const std::vector<io::InputBundle>& bundles,
                                       const std::string& name);

/// Throws Error(input) naming tensors of this attention that are not read and change its queries,
/// keys or scores: the projections alone are then not the model's. `read`: tensors that are read
/// besides the projections, without the prefix of a model.
void refuse_unread_tensors(const std::vector<io::InputBundle>& bundles, const ModelLayer& wanted,
                           const ModelNames& names, std::set<std::string> read);

/// Throws Error(input): there is no tensor `name`, with the hint of names_in().
[[noreturn]] void refuse_layer(const std::vector<io::InputBundle>& bundles,
                               const ModelLayer& wanted, const std::string& name);

}  // namespace attn::tools
