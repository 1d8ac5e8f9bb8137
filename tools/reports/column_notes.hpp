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

/// A shard's notes of the report. The column sums and the keys' numbers of queries are results of
/// the tool, and not written again.
ReportNotes notes_of(const ColumnNotes& columns);

/// The inverse. `results` is the bundle of the shard, whose results (heads, Lk) belong to the
/// section; `share` is absent if the shard has all heads. Throws Error(input) naming notes or a
/// result that do not fit.
ColumnNotes columns_of(const ReportNotes& notes, const io::InputBundle& results,
                       const std::optional<HeadShare>& share);

/// Puts the heads of `part` into their places in a whole section: the n-th head of `part` is head
/// `heads[n]`. `whole` has places for all heads of its leading axes.
void place_heads(const ColumnNotes& part, const std::vector<Index>& heads, ColumnNotes& whole);

/// A copy of `part` with places for all heads.
ColumnNotes whole_of(const ColumnNotes& part);

}  // namespace attn::tools
