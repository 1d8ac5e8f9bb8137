#pragma once

#include <string_view>

namespace attn {

/// Whether `text` is UTF-8 as in RFC 3629: no surrogates, nothing above U+10FFFF, no overlong
/// encodings. Empty text is valid.
bool is_utf8(std::string_view text);

/// Whether two texts are the same but for the case of ASCII letters.
bool same_but_case(std::string_view a, std::string_view b);

}  // namespace attn
