#include "io/arrays/safetensors_type.hpp"

#include <array>

namespace attn::io {
namespace {

// In the reference implementation's order, which is that of alignment. Types without a rank are
// newer ones; they are listed only so that they are not reported as unknown.
constexpr std::array<SafetensorsType, 20> types = {{
    {"BOOL", DType::boolean, 8, 0},   {"U8", DType::u8, 8, 1},
    {"I8", DType::i8, 8, 2},          {"F8_E5M2", DType::other, 8, 3},
    {"F8_E4M3", DType::other, 8, 4},  {"I16", DType::i16, 16, 5},
    {"U16", DType::u16, 16, 6},       {"F16", DType::f16, 16, 7},
    {"BF16", DType::bf16, 16, 8},     {"I32", DType::i32, 32, 9},
    {"U32", DType::u32, 32, 10},      {"F32", DType::f32, 32, 11},
    {"F64", DType::f64, 64, 12},      {"I64", DType::i64, 64, 13},
    {"U64", DType::u64, 64, 14},      {"F4", DType::other, 4, -1},
    {"F6_E2M3", DType::other, 6, -1}, {"F6_E3M2", DType::other, 6, -1},
    {"F8_E8M0", DType::other, 8, -1}, {"C64", DType::other, 64, -1},
}};

}  // namespace

std::optional<SafetensorsType> safetensors_type(std::string_view name) {
  for (const SafetensorsType& type : types) {
    if (type.name == name) return type;
  }
  return std::nullopt;
}

std::optional<SafetensorsType> safetensors_type(DType dtype) {
  if (dtype == DType::other) return std::nullopt;
  for (const SafetensorsType& type : types) {
    if (type.dtype == dtype) return type;
  }
  return std::nullopt;
}

}  // namespace attn::io
