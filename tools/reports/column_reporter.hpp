#pragma once

#include <string>
#include <utility>
#include <vector>

#include "cli/report.hpp"
#include "common/tables/group_report.hpp"
#include "reports/column_groups.hpp"
#include "reports/column_lists.hpp"
#include "reports/column_statistics.hpp"
#include "reports/report_options.hpp"

namespace attn::tools {

/// The outcome over all sections: a violated bound is the worst.
struct ColumnVerdict {
  bool broken = false;
  bool unconverged = false;

  /// The status of the JSON report, and of the process.
  std::string word() const { return broken ? "no" : (unconverged ? "not_converged" : "ok"); }
  int status() const { return broken || unconverged ? 1 : 0; }

  /// Warns of schemes that did not converge. `group` is "" without groups.
  void add(const ColumnStatistics& statistics, const ColumnSummaries& summaries,
           const std::string& group, cli::Report& report);
};

/// The report of explain-away-stats: for sections one after the other, then for all together.
class ColumnReporter {
 public:
  ColumnReporter(ColumnSummaryOptions wanted, const ReportOptions& options)
      : wanted_(std::move(wanted)), options_(options) {}

  /// Adds a section, and fills the result of its JSON report; consumes the column sums. `heading`
  /// is its first line: "layer3.h5: 8 x 2048 x 2048, scaled-dot, float32". Returns its summaries.
  const ColumnSummaries& add(const SectionName& section, const std::string& heading,
                             ColumnStatistics& statistics, cli::Report& report);

  /// Prints the table of several sections of INPUT `name`, and warns of figures that the report
  /// hides.
  void conclude(const std::string& name, cli::Report& report);

  /// Combines the JSON of the sections, with the status.
  void finish(const GroupReport& groups, cli::Report& report) const;

  ColumnVerdict& verdict() { return verdict_; }

 private:
  void print_one(const std::string& heading, const ColumnStatistics& statistics,
                 cli::Report& report) const;
  void pool(const std::vector<std::string>& schemes,
            const std::vector<PooledHistogram>& histograms);
  void count_explained(const std::vector<std::string>& schemes, const ColumnSummaries& summaries);

  ColumnSummaryOptions wanted_;
  ReportOptions options_;
  std::vector<GroupColumns> groups_;
  std::vector<std::pair<std::string, PooledHistogram>> histograms_;
  std::vector<ExplainedKeys> explained_;  // pooled over the sections, by scheme
  ColumnVerdict verdict_;
};

}  // namespace attn::tools
