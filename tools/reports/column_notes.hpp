#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/frame/section_name.hpp"
#include "common/shards/report_notes.hpp"
#include "reports/column_statistics.hpp"

namespace attn::tools {

/// The report of explain-away-stats on one section, or on some of its heads.
struct ColumnNotes {
  SectionName section;
  std::string input;     ///< the name of the INPUT, for the table of all sections
  bool several = false;  ///< there may be several sections
  std::string heading;   ///< as in ColumnReporter::add
  ColumnSummaryOptions wanted;
  ColumnStatistics statistics;
};

/// What a shard keeps of it. The column sums, and the numbers of queries of the keys, are results
/// of the tool, and not written again.
ReportNotes notes_of(const ColumnNotes& columns);

/// The inverse. `results` is the bundle of the shard, whose results (heads, Lk) belong to the
/// section; `share` is absent if it has all heads. Throws Error(input) naming notes or a result
/// that do not fit.
ColumnNotes columns_of(const ReportNotes& notes, const io::InputBundle& results,
                       const std::optional<HeadShare>& share);

/// Puts the heads of `part` into their places among those of a whole section: its n-th head is head
/// `heads[n]`. `whole` has places for as many heads as its leading axes have.
void place_heads(const ColumnNotes& part, const std::vector<Index>& heads, ColumnNotes& whole);

/// A copy of `part` with places for all heads.
ColumnNotes whole_of(const ColumnNotes& part);

}  // namespace attn::tools
