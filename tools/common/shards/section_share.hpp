#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cli/command.hpp"
#include "common/frame/section_name.hpp"
#include "common/results/results.hpp"
#include "common/shards/problem_share.hpp"
#include "common/shards/report_notes.hpp"
#include "common/shards/shard.hpp"
#include "common/shards/shard_marks.hpp"
#include "io/output.hpp"

namespace attn::tools {

/// The share of one shard in the sections of a run or, with only one section, in its problems.
class SectionShare {
 public:
  /// `arguments` must outlive the object.
  SectionShare(const cli::Arguments& arguments, const Shard& shard)
      : arguments_(arguments), shard_(shard) {}

  /// Adds the next section, with its work. `whole` is the fate of the section's results in an
  /// undivided run that copies INPUT. Throws Error(usage) for a group with the name of the marks.
  void add(const SectionName& name, double work, const ResultPlan& whole = {});

  /// The sections [first, second) that the shard computes, of those added.
  std::pair<std::size_t, std::size_t> own() const { return share_of(work_, shard_); }

  /// Divides the problems of the only section, with the work of each. Throws Error(usage) if they
  /// form one unit.
  void divide(const ProblemUnits& units, const std::vector<double>& work);

  /// The problems that the shard computes; null if they are not divided.
  const std::shared_ptr<ProblemShare>& problems() const { return problems_; }

  /// Keeps the options of the run that name unused datasets (unused_options).
  void keep_unused(std::vector<std::string> options) { unused_ = std::move(options); }

  /// Keeps notes of the report on a section, which mark() writes.
  void keep(ReportNotes notes) { notes_.push_back(std::move(notes)); }

  /// Writes the marks of the shard (shard_marks.hpp), with the warnings in `report`.
  void mark(io::OutputBundle& output, const cli::Report& report) const;

  /// "shard 3 of 64 has none of the 40 groups"
  std::string without_work() const;

 private:
  struct Section {
    std::string group;
    ResultPlan whole;
  };
  const cli::Arguments& arguments_;
  Shard shard_;
  std::vector<double> work_;
  std::vector<Section> sections_;
  std::shared_ptr<ProblemShare> problems_;
  std::vector<ReportNotes> notes_;
  std::vector<std::string> unused_;
};

}  // namespace attn::tools
