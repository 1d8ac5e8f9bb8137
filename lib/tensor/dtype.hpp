#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

namespace attn {

/// Element type of a stored dataset, as far as the toolkit distinguishes types.
enum class DType {
  f16,
  bf16,
  f32,
  f64,
  i8,
  i16,
  i32,
  i64,
  u8,
  u16,
  u32,
  u64,
  boolean,
  string,
  other
};

/// NumPy's name of the type ("float32", "int8", "bool", "string", ...), or "bfloat16" or "other".
std::string_view name(DType type) noexcept;

/// Bytes per element as stored; 0 for string and other.
std::size_t size_of(DType type) noexcept;

bool is_floating(DType type) noexcept;

/// Integers of any width, and bool.
bool is_integral(DType type) noexcept;

/// The type of numbers that lie in memory as T.
template <class T>
constexpr DType dtype_of() {
  if constexpr (std::is_same_v<T, float>) return DType::f32;
  if constexpr (std::is_same_v<T, double>) return DType::f64;
  if constexpr (std::is_same_v<T, std::int64_t>) return DType::i64;
  if constexpr (std::is_same_v<T, std::uint8_t>) return DType::u8;
  return DType::other;
}

}  // namespace attn
