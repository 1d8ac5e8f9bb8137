#pragma once

#include <string>

namespace attn {

/// The shortest decimal from which the same number is read again, for messages: "0.1", "1e+30",
/// "-inf", and "nan" without a sign.
std::string number_text(double value);
std::string number_text(float value);

}  // namespace attn
