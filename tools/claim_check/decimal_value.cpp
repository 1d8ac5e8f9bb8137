#include "claim_check/decimal_value.hpp"

#include <algorithm>
#include <charconv>
#include <string>

namespace attn::tools {

Decimal shortest_decimal(double value) {
  using boost::multiprecision::cpp_int;
  // "-1.25e-07" is -125 times 10 to the power of -7 - 2.
  char text[32];
  const char* const end =
      std::to_chars(text, text + sizeof text, value, std::chars_format::scientific).ptr;
  const char* const mark = std::find(static_cast<const char*>(text), end, 'e');
  std::string digits(static_cast<const char*>(text), mark);
  int power = 0;
  std::from_chars(mark + (mark[1] == '+' ? 2 : 1), end, power);
  if (const std::size_t point = digits.find('.'); point != std::string::npos) {
    power -= static_cast<int>(digits.size() - point - 1);
    digits.erase(point, 1);
  }
  const cpp_int scale =
      boost::multiprecision::pow(cpp_int(10), static_cast<unsigned>(std::abs(power)));
  return power < 0 ? Decimal(cpp_int(digits), scale) : Decimal(cpp_int(digits) * scale);
}

}  // namespace attn::tools
