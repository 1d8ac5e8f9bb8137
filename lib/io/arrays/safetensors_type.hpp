#pragma once

#include <optional>
#include <string_view>

#include "tensor/dtype.hpp"

namespace attn::io {

/// One of the element types of .safetensors.
struct SafetensorsType {
  std::string_view name;  ///< "BF16"
  DType dtype;            ///< `other` if the toolkit does not read it
  std::size_t bits;
  int rank;  ///< position of the type in the reference implementation's order
};

/// The type called `name`; empty if there is no such type.
std::optional<SafetensorsType> safetensors_type(std::string_view name);
std::optional<SafetensorsType> safetensors_type(DType dtype);

}  // namespace attn::io
