#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "cli/command.hpp"
#include "common/frame/section_name.hpp"
#include "common/tables/table.hpp"
#include "reports/column_statistics.hpp"

namespace attn::tools {

/// A figure of a head under a scheme in BASE and in INPUT; empty where it is unknown.
struct FigureChange {
  std::size_t section = 0;
  Index head = 0;
  std::string scheme;
  std::size_t figure = 0;
  std::optional<double> base = {}, value = {};
  double change = 0;  ///< value − base; infinite if only one is known
};

/// The statistics of explain-away-stats by head, of INPUT against BASE (--against).
class ColumnComparison {
 public:
  /// Throws Error(usage) for a --threshold that is malformed or names an unknown figure.
  ColumnComparison(const cli::Arguments& arguments, const ColumnSummaryOptions& options);

  /// Adds one section. Both summaries are of the same schemes and heads.
  void add(const SectionName& section, const HeadAxes& axes,
           const std::vector<std::string>& schemes, const ColumnSummaries& base,
           const ColumnSummaries& summaries);

  /// The report for people: a sentence for each scheme, and for each figure the head that changed
  /// most; then what is beyond the thresholds. `input` is what INPUT is called.
  std::string text(const std::string& input) const;

  /// The `result` of the JSON report.
  nlohmann::ordered_json json() const;

  /// The table of --tsv: a row for each head, scheme and figure.
  static std::vector<TableColumn> table_columns();
  std::vector<std::vector<Cell>> table_rows() const;

  /// The number of rows whose change is beyond their threshold; 0 without --threshold.
  Index beyond() const;

  /// The columns with their meanings, for the manual page.
  static std::vector<std::pair<std::string, std::string>> table_meanings();

 private:
  struct Section {
    SectionName name;
    HeadAxes axes;
  };
  struct Total {  // of a scheme, over all heads
    std::string scheme;
    Index keys = 0, base_keys = 0;  // with enough queries
    Index explained = 0, base_explained = 0;
    double entropy = 0, base_entropy = 0;
    Index heads = 0;
  };

  bool is_beyond(const FigureChange& change) const;
  std::string place(const FigureChange& change) const;
  std::vector<const FigureChange*> changes_of(const std::string& scheme, std::size_t figure) const;
  std::string figures_text(const Total& total) const;
  std::string beyond_text() const;

  std::string against_;
  std::vector<double> epsilons_;
  Figures<SchemeSummaryOf> figures_;
  std::vector<std::optional<double>> thresholds_;  // by figure
  std::vector<Section> sections_;
  std::vector<Total> totals_;
  std::vector<FigureChange> changes_;
};

}  // namespace attn::tools
