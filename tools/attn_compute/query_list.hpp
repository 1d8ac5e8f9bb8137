#pragma once

#include <algorithm>
#include <string>

#include "cli/report.hpp"
#include "io/output.hpp"
#include "pass/row_selection.hpp"

namespace attn::tools {

/// The queries that --queries names, "0,17,100:108,-1,::1000": indices, negative ones from the end,
/// and ranges as NumPy takes them, clipped, with a positive step. `rows` is how many `where` has.
/// Throws Error(usage): no such list, an index that is not there, nothing chosen.
RowSelection parse_queries(const std::string& list, Index rows, const std::string& where);

/// Moves the chosen ones of `values`' rows of `width` numbers to the front.
template <class T>
void keep_chosen(const RowSelection& rows, T* values, Index width) {
  Index kept = 0;
  for (const RowRange& range : rows.ranges()) {
    std::copy(values + range.first * width, values + range.last * width, values + kept * width);
    kept += range.last - range.first;
  }
}

/// Writes the indices of the chosen queries as the dataset `queries` (n), int64.
void write_queries(const RowSelection& queries, io::OutputBundle& output, cli::Report& report);

}  // namespace attn::tools
