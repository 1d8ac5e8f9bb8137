#include "tensor/number_text.hpp"

#include <array>
#include <charconv>
#include <cmath>

namespace attn {
namespace {

template <class T>
std::string shortest(T value) {
  if (std::isnan(value)) return "nan";
  const T size = std::abs(value);
  const bool plain = size == 0 || (size >= T(1e-4) && size < T(1e16));
  std::array<char, 64> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value,
                                 plain ? std::chars_format::fixed : std::chars_format::scientific);
  return {digits.data(), end.ptr};
}

}  // namespace

std::string number_text(double value) { return shortest(value); }
std::string number_text(float value) { return shortest(value); }

}  // namespace attn
