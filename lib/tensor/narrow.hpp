#pragma once

#include <cstdint>

namespace attn {

/// The IEEE half-precision number nearest to `value`, ties to even: at most half a unit in the last
/// place away, infinite from 65520 on. A NaN stays a NaN and keeps the upper bits of its payload.
std::uint16_t narrow_half(double value) noexcept;

/// The same for bfloat16, which is infinite from (2 - 2^-8) 2^127 on. Rounds from float64 in one
/// step: through float32, ties would be decided twice.
std::uint16_t narrow_bfloat16(double value) noexcept;

}  // namespace attn
