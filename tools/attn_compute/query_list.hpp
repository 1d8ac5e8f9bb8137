#pragma once

#include <algorithm>
#include "cli/report.hpp"
#include "io/output.hpp"
#include "pass/row_selection.hpp"

namespace attn::tools {

/// Moves the selected rows of `values`, of `width` numbers each, to the front.
template <class T>
void keep_chosen(const RowSelection& rows, T* values, Index width) {
  Index kept = 0;
  for (const RowRange& range : rows.ranges()) {
    std::copy(values + range.first * width, values + range.last * width, values + kept * width);
    kept += range.last - range.first;
  }
}

/// Writes the indices of the selected queries as the dataset `queries` (n), int64.
void write_queries(const RowSelection& queries, io::OutputBundle& output, cli::Report& report);

}  // namespace attn::tools
