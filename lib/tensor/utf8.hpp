#pragma once

#include <string_view>

namespace attn {

/// Whether all of `text` is UTF-8 as RFC 3629 has it: no surrogates, nothing above U+10FFFF, no
/// character in more bytes than it needs. Empty text is.
bool is_utf8(std::string_view text);

}  // namespace attn
