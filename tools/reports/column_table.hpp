#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/frame/section_name.hpp"
#include "common/tables/table.hpp"
#include "reports/column_statistics.hpp"

namespace attn::tools {

/// The options that a sweep varies, if given.
struct SweepPoint {
  std::optional<double> scale;
  std::optional<double> hybrid;
};

/// The figures of a scheme's summary.
Figures<SchemeSummaryOf> column_figures(const ColumnSummaryOptions& options);

/// The names of those that --sinks adds.
const std::vector<std::string>& sink_figure_names();

/// The columns of --tsv: place, with a `sweep` its scale and hybrid, scheme, then the figures.
std::vector<TableColumn> column_table_columns(const ColumnSummaryOptions& options, bool sweep);

/// The rows of one section, or of one point of a sweep: a row for each head and scheme. `point` is
/// null without a sweep.
std::vector<std::vector<Cell>> column_table_rows(const SectionName& section, const HeadAxes& heads,
                                                 const std::vector<std::string>& schemes,
                                                 const ColumnSummaryOptions& options,
                                                 const ColumnSummaries& summaries,
                                                 const SweepPoint* point);

/// The meaning of each column, for the manual page.
std::vector<std::pair<std::string, std::string>> column_table_meanings();

}  // namespace attn::tools
