#include "tensor/narrow.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

namespace attn {
namespace {

/// Rounds to a format of 16 bits with `mantissa` explicit mantissa bits.
std::uint16_t narrow(double value, int mantissa) noexcept {
  const int exponent_bits = 15 - mantissa;
  const int least = 2 - (1 << (exponent_bits - 1));  // exponent of the least normal number
  const std::uint32_t infinity = ((1u << exponent_bits) - 1) << mantissa;
  const auto bits = std::bit_cast<std::uint64_t>(value);
  const std::uint32_t sign = bits >> 63 != 0 ? 0x8000u : 0u;
  if (std::isnan(value)) {
    const auto payload =
        static_cast<std::uint32_t>(bits >> (52 - mantissa)) & ((1u << mantissa) - 1);
    return static_cast<std::uint16_t>(sign | infinity | payload | 1u << (mantissa - 1));
  }
  if (std::isinf(value)) return static_cast<std::uint16_t>(sign | infinity);
  if (value == 0) return static_cast<std::uint16_t>(sign);
  const int exponent = std::ilogb(value);
  if (exponent > -least + 1) return static_cast<std::uint16_t>(sign | infinity);
  // In units of the last place, where rounding is to whole numbers. Codes increase by one per unit,
  // also across the borders of exponents, subnormals and infinity.
  const int unit = std::max(exponent, least) - mantissa;
  const auto units =
      static_cast<std::uint32_t>(std::nearbyint(std::scalbn(std::fabs(value), -unit)));
  const auto binades = static_cast<std::uint32_t>(std::max(exponent, least) - least);
  return static_cast<std::uint16_t>(sign | ((binades << mantissa) + units));
}

}  // namespace

std::uint16_t narrow_half(double value) noexcept { return narrow(value, 10); }
std::uint16_t narrow_bfloat16(double value) noexcept { return narrow(value, 7); }

}  // namespace attn
