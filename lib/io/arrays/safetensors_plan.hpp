#pragma once

#include <string>
#include <vector>

#include "tensor/dtype.hpp"
#include "tensor/shape.hpp"

namespace attn::io {

/// An array to be written to a .safetensors.
struct SafetensorsPlan {
  std::string name;
  DType dtype = DType::f32;
  Shape shape;
};

/// The header that the reference implementation writes for arrays in this order: 8 bytes of length,
/// then JSON without spaces in the given order, padded with spaces to a multiple of 8 bytes. A
/// `metadata` that is not empty comes first, as the entry metadata_key of `__metadata__`. Throws
/// std::invalid_argument for a type that .safetensors does not have.
std::string safetensors_header(const std::vector<SafetensorsPlan>& arrays,
                               const std::string& metadata = {});

/// Whether the reference implementation writes array a before b: arrays are sorted by alignment,
/// largest first, then by type and then by name. Both must have a type that .safetensors has.
bool safetensors_before(const SafetensorsPlan& a, const SafetensorsPlan& b);

}  // namespace attn::io
