#pragma once

#include <string>

#include "pass/row_selection.hpp"

namespace attn::tools {

/// An option that chooses some of `count` things by a list such as "0,17,100:108,-1,::1000".
struct IndexList {
  std::string option;  ///< "queries": also what the things are called
  std::string unit;    ///< one of them: "query"
  std::string where;   ///< what has them, for messages
  Index count = 0;
};

/// Parses such a list: indices, negative ones counted from the end, and ranges with a positive
/// step, clipped as in NumPy. Throws Error(usage) for a malformed list, an index out of range or an
/// empty selection.
RowSelection parse_indices(const std::string& text, const IndexList& list);

}  // namespace attn::tools
