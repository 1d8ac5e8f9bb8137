#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>

namespace attn {

/// The sum of at most 2^63 finite numbers >= 0 without rounding. It depends neither on their order
/// nor on how they are divided into partial sums. Represented as an integer in units of 2^-1074,
/// with digits to the base 2^32.
class ExactSum {
 public:
  /// Enough for 2^63 of the largest numbers: 2098 bits and 63.
  static constexpr std::size_t count = 68;
  using Digits = std::array<std::uint64_t, count>;  ///< each < 2^32, the lowest first

  ExactSum() = default;
  explicit ExactSum(const Digits& digits) : digits_(digits) {}

  void add(double term) {
    int exponent = 0;
    const auto integer = static_cast<std::uint64_t>(std::ldexp(std::frexp(term, &exponent), 53));
    // Denormal numbers have fewer bits, and none below the unit.
    const int place = exponent - 53 + 1074;
    const std::uint64_t bits = place >= 0 ? integer : integer >> -place;
    const int at = place >= 0 ? place : 0;
    const auto digit = static_cast<std::size_t>(at / 32);
    const int shift = at % 32;
    const std::uint64_t low = (bits & 0xffffffffU) << shift;
    const std::uint64_t high = (bits >> 32) << shift;
    add_at(digit, low & 0xffffffffU);
    add_at(digit + 1, (low >> 32) + (high & 0xffffffffU));
    add_at(digit + 2, high >> 32);
  }

  void add(const ExactSum& other) {
    for (std::size_t n = 0; n < count; ++n) add_at(n, other.digits_[n]);
  }

  const Digits& digits() const { return digits_; }

  /// With an error of at most two roundings; infinity beyond the format.
  double value() const {
    double sum = 0;
    for (std::size_t n = 0; n < count; ++n) {
      sum += std::ldexp(static_cast<double>(digits_[n]), 32 * static_cast<int>(n) - 1074);
    }
    return sum;
  }

 private:
  // Carries propagate at once; they seldom go far.
  void add_at(std::size_t digit, std::uint64_t amount) {
    for (; amount > 0 && digit < count; ++digit) {
      const std::uint64_t sum = digits_[digit] + amount;
      digits_[digit] = sum & 0xffffffffU;
      amount = sum >> 32;
    }
  }

  Digits digits_ = {};
};

}  // namespace attn
