#pragma once

#include <optional>
#include <string>
#include <vector>

#include "io/input.hpp"
#include "tensor_convert/model_weights.hpp"

namespace attn::tools {

/// What Hugging Face's checkpoints call the tensors of one attention, without what may stand before
/// the name of all tensors of a model.
struct ModelNames {
  std::string q, k, v;        ///< without ".weight" and ".bias"
  std::string relative_bias;  ///< empty where there is none
};

ModelNames names_in(const ModelLayer& wanted);

/// The tensor of that name, as it is or after "bert.", "transformer." or "model.", in the first
/// file that has it.
std::optional<io::InputDataset> find_tensor(const std::vector<io::InputBundle>& bundles,
                                            const std::string& name);

/// Throws Error(input): there is no tensor `name`, with the hint which layers there are.
[[noreturn]] void refuse_layer(const std::vector<io::InputBundle>& bundles, ModelLayer wanted,
                               const std::string& name);

}  // namespace attn::tools
