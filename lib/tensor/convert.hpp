#pragma once

#include <cstdint>
#include <type_traits>

#include "tensor/half.hpp"
#include "tensor/shape.hpp"

namespace attn {

/// The bits of an IEEE half-precision number, in the machine's byte order.
struct Half {
  std::uint16_t bits;
};

/// The bits of a bfloat16 number: the upper half of a float32's.
struct Bfloat16 {
  std::uint16_t bits;
};

/// Whether reading a dataset converts an element of type Stored to Out: any number to floating
/// types (rounded to nearest), integers to uint8_t (as "is not zero") and to int64_t.
template <class Stored, class Out>
constexpr bool convertible = std::is_floating_point_v<Out> || std::is_integral_v<Stored>;

template <class Out, class Stored>
Out converted(Stored value) {
  if constexpr (std::is_same_v<Stored, Half>) {
    return static_cast<Out>(widen_half(value.bits));
  } else if constexpr (std::is_same_v<Stored, Bfloat16>) {
    return static_cast<Out>(widen_bfloat16(value.bits));
  } else if constexpr (std::is_same_v<Out, std::uint8_t>) {
    return value != 0 ? 1 : 0;
  } else {
    return static_cast<Out>(value);
  }
}

/// `in` and `out` must not overlap.
template <class Stored, class Out>
void convert(const Stored* __restrict in, Index count, Out* __restrict out) {
  for (Index i = 0; i < count; ++i) out[i] = converted<Out>(in[i]);
}

}  // namespace attn
