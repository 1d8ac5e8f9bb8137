#pragma once

#include <string>

namespace attn {

/// "no space left on device": what an errno means, to follow a colon.
std::string system_reason(int error_number);

}  // namespace attn
