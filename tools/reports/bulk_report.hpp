#pragma once

#include <map>
#include <optional>
#include <string>

#include "cli/command.hpp"
#include "cli/report.hpp"
#include "common/shards/report_notes.hpp"
#include "common/tables/group_report.hpp"
#include "sinkhorn/plan_chain.hpp"
#include "tensor/difference.hpp"
#include "tensor/exact_sum.hpp"
#include "tensor/shape.hpp"

namespace attn::tools {

/// How the matrices of a kernel differ from right ones (sinkhorn_iter/bulk_comparison.hpp).
struct KernelDifference {
  Index matrices = 0;   ///< compared
  Index differing = 0;  ///< matrices that rounding does not explain
  double largest = 0;   ///< their largest |found - expected|, NaN if one is NaN
  Shape index;          ///< of that entry in the dataset
  double found = 0;     ///< by the kernel
  double expected = 0;

  void add(const KernelDifference& more);
};

/// The figures of problems of sinkhorn-iter bulk.
struct BulkFigures {
  Index problems = 0;
  Index scaled = 0;  ///< solved by factors of exponentials; the others by logarithms
  double largest_error = 0;
  ExactSum errors;                                           ///< their sum
  std::optional<ChainGain> largest;                          ///< of whole chains, with --chain
  std::map<std::string, KernelDifference> differences = {};  ///< by dataset, with --against

  void add(const BulkFigures& more);
  void add_chain(const ChainGain& gain);
};

/// The figures of one section, or of some of its problems.
struct BulkNotes {
  SectionName section;
  bool several = false;  ///< there may be several sections
  Index queries = 0;
  Index keys = 0;
  bool f64 = false;
  Index iterations = 0;
  BulkFigures figures;
};

/// A shard's notes of these figures, and the inverse; `share` is absent if the shard has all
/// problems. Throws Error(input) naming notes that do not fit.
ReportNotes notes_of(const BulkNotes& bulk);
BulkNotes bulk_of(const ReportNotes& notes, const std::optional<HeadShare>& share);

/// "7 problems of 4 x 4 in float64, 20 iterations"
std::string bulk_words(Index problems, Index queries, Index keys, bool f64, Index iterations);

/// The report of sinkhorn-iter bulk: of sections one after the other, then of all together.
class BulkReporter {
 public:
  /// Adds a section with all its problems, and fills the result of its JSON report.
  void add(const BulkNotes& section, cli::Report& report);

  /// Combines the JSON, and returns the summary line.
  cli::Outcome conclude(const GroupReport& groups, cli::Report& report) const;

 private:
  BulkNotes last_;
  BulkFigures all_;
};

}  // namespace attn::tools
