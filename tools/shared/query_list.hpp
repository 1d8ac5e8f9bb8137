#pragma once

#include <string>

#include "scheme/row_selection.hpp"

namespace attn::tools {

/// The queries that --queries names, "0,17,100:108,-1,::1000": indices, negative ones from the end,
/// and ranges as NumPy takes them, clipped, with a positive step. `rows` is how many `where` has.
/// Throws Error(usage): no such list, an index that is not there, nothing chosen.
RowSelection parse_queries(const std::string& list, Index rows, const std::string& where);

}  // namespace attn::tools
