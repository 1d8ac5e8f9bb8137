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
  std::string q, k, v;        ///< without ".weight" and ".bias"
  std::string relative_bias;  ///< empty if there is none
};

ModelNames names_in(const ModelLayer& wanted);

/// The tensor of that name, as it is or with the prefix "bert.", "transformer." or "model.", in the
/// first file that has it.
std::optional<io::InputDataset> find_tensor(const std::vector<io::InputBundle>& bundles,
                                            const std::string& name);

/// Throws Error(input): there is no tensor `name`; the hint says which layers exist.
[[noreturn]] void refuse_layer(const std::vector<io::InputBundle>& bundles, ModelLayer wanted,
                               const std::string& name);

}  // namespace attn::tools
