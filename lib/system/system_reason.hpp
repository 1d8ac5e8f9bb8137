#pragma once

#include <string>

namespace attn {

/// The meaning of an errno, worded to follow a colon: "no space left on device".
std::string system_reason(int error_number);

}  // namespace attn
