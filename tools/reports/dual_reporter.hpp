#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/command.hpp"
#include "common/shards/report_notes.hpp"
#include "reports/dual_groups.hpp"
#include "reports/dual_report.hpp"
#include "reports/report_options.hpp"

namespace attn::tools {

/// The figures of lambda-solve for one section, or for some of its heads.
struct DualNotes {
  SectionName section;
  std::string input;      ///< the name of the INPUT, for the tables of all sections
  bool several = false;   ///< there may be several sections
  bool averages = false;  ///< the mean over the heads is requested
  DualHeading heading;
  std::vector<DualHead> heads;
};

/// A shard's notes of these figures, and the inverse; `share` is absent if the shard has all heads.
/// Throws Error(input) naming notes that do not fit.
ReportNotes notes_of(const DualNotes& dual);
DualNotes dual_of(const ReportNotes& notes, const std::optional<HeadShare>& share);

/// The report of lambda-solve: for sections one after the other, then for all together.
class DualReporter {
 public:
  explicit DualReporter(const ReportOptions& options) : options_(options) {}

  /// Adds a section with all its heads, and fills the result of its JSON report. Returns the means
  /// over the heads, if requested.
  std::optional<std::vector<double>> add(const DualNotes& section, cli::Report& report);

  /// Prints the tables of several sections, combines the JSON, and returns the summary line and the
  /// exit status.
  cli::Outcome conclude(const std::string& name, const GroupReport& groups, cli::Report& report);

 private:
  ReportOptions options_;
  std::optional<std::vector<double>> averaged_;  // of all sections
  DualHead all_;
  std::vector<DualGroup> groups_;  // if there are several
  Shape shape_;                    // of the section added last
  Index heads_ = 0;
};

}  // namespace attn::tools
