#pragma once

#include <boost/multiprecision/cpp_int.hpp>

namespace attn::tools {

/// A rational number, with exact arithmetic.
using Decimal = boost::multiprecision::cpp_rational;

/// The shortest decimal that reads back as a finite number: 1/10 for 0.1. It differs from the
/// number by less than half a unit of the number's last binary place.
Decimal shortest_decimal(double value);

}  // namespace attn::tools
