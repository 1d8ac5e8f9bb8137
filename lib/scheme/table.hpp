#pragma once

#include <array>

namespace attn {

class SchemeDescription;

/// One function per scheme, defined in the scheme's file. `schemes` lists their results.
const SchemeDescription& unas_scheme();
const SchemeDescription& dnas_scheme();
const SchemeDescription& hnas_scheme();
const SchemeDescription& sinkhorn_scheme();
const SchemeDescription& fenchel_scheme();
const SchemeDescription& transport_scheme();

/// The names of `schemes`, in their order, for programs that are linked without the mathematics.
inline constexpr std::array scheme_names = {"unas",     "dnas",    "hnas",
                                            "sinkhorn", "fenchel", "transport"};

}  // namespace attn
