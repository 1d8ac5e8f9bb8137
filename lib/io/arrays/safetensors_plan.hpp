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

/// The header that the reference implementation writes before arrays in this order: 8 bytes of
/// length, then JSON without spaces in the order given, padded with spaces to a multiple of 8.
/// Throws std::invalid_argument for a type that there is not.
std::string safetensors_header(const std::vector<SafetensorsPlan>& arrays);

/// Whether the reference implementation writes array a before b: those of the types of the widest
/// alignment come first, those of one type by name. Both of types that there are.
bool safetensors_before(const SafetensorsPlan& a, const SafetensorsPlan& b);

}  // namespace attn::io
