#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tensor_convert/model_config.hpp"
#include "tensor_convert/model_names.hpp"
#include "tensor_convert/produced.hpp"

namespace attn::tools {

/// Numbers of a dataset that no file holds, in float64.
Produced made_of(const std::string& name, Shape shape, std::vector<double> numbers,
                 const std::string& address);

/// The norm of queries or keys (`letter`) as datasets q_norm or q_layer_norm and
/// q_layer_norm_bias, of shape (size), (heads, size), or (heads·size) for a norm over all heads.
/// Weights of an RMS norm that are stored less 1 become float32, or stay float64. Adds to `read`
/// the tensors that it takes. Throws Error(input) if there are none, or if their shapes do not fit.
std::vector<Produced> head_norm(const std::vector<io::InputBundle>& bundles,
                                const ModelNames& names, HeadNormKind kind,
                                const std::string& letter, Index heads, Index size,
                                std::set<std::string>& read);

}  // namespace attn::tools
