#include "pass/row_selection.hpp"

#include <algorithm>
#include <string>

#include "attnkit/error.hpp"

namespace attn {

RowSelection::RowSelection(PooledVector<RowRange> ranges, Index rows) {
  for (const RowRange& range : ranges) {
    if (0 <= range.first && range.first <= range.last && range.last <= rows) continue;
    throw Error(Failure::input, "rows " + std::to_string(range.first) + ":" +
                                    std::to_string(range.last) +
                                    " are not within 0:" + std::to_string(rows));
  }
  std::sort(ranges.begin(), ranges.end(),
            [](const RowRange& a, const RowRange& b) { return a.first < b.first; });
  for (const RowRange& range : ranges) {
    if (range.first == range.last) continue;
    if (!ranges_.empty() && range.first <= ranges_.back().last) {
      ranges_.back().last = std::max(ranges_.back().last, range.last);
    } else {
      ranges_.push_back(range);
    }
  }
  for (const RowRange& range : ranges_) {
    before_.push_back(count_);
    count_ += range.last - range.first;
  }
}

PooledVector<RowRange>::const_iterator RowSelection::first_ending_after(Index row) const {
  return std::upper_bound(ranges_.begin(), ranges_.end(), row,
                          [](Index at, const RowRange& range) { return at < range.last; });
}

Index RowSelection::position(Index row) const {
  const auto range = first_ending_after(row);
  if (range == ranges_.end()) return count_;
  return before_[static_cast<std::size_t>(range - ranges_.begin())] +
         std::max<Index>(0, row - range->first);
}

bool RowSelection::meets(const RowRange& rows) const {
  const auto range = first_ending_after(rows.first);
  return range != ranges_.end() && range->first < rows.last;
}

PooledVector<RowRange> RowSelection::within(const RowRange& rows) const {
  PooledVector<RowRange> parts;
  for (auto range = first_ending_after(rows.first);
       range != ranges_.end() && range->first < rows.last; ++range) {
    parts.push_back({std::max(range->first, rows.first), std::min(range->last, rows.last)});
  }
  return parts;
}

}  // namespace attn
