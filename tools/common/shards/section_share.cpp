#include "common/shards/section_share.hpp"

#include <fmt/format.h>

#include "attnkit/error.hpp"
#include "cli/words.hpp"
#include "common/runs/run_identity.hpp"
#include "common/shards/shard_marks.hpp"

namespace attn::tools {

void SectionShare::add(const SectionName& name, double work, const ResultPlan& whole) {
  if (is_of_shard_marks(name.group)) {
    throw Error(
        Failure::usage,
        fmt::format("--shard keeps its notes in a group {}, but INPUT has such a group with "
                    "tensors",
                    shard_group),
        "another name, or one run without --shard");
  }
  work_.push_back(work);
  sections_.push_back({name.group, whole});
}

void SectionShare::divide(const ProblemUnits& units, const std::vector<double>& work) {
  const std::size_t count = units.units().size();
  if (count <= 1) {
    const std::string why =
        units.problems() == 1 ? "there is only one"
                              : fmt::format("all {} add into {}", units.problems(), units.summed());
    throw Error(Failure::usage, "--shard divides heads or other problems, but " + why,
                arguments_.declared("ranks") ? "without --shard, MPI ranks can share one problem"
                                             : "one run without --shard computes it");
  }
  if (units.problems() > most_problems) {
    throw Error(Failure::usage, fmt::format("--shard divides at most {} problems, but there are {}",
                                            most_problems, units.problems()));
  }
  problems_ = std::make_shared<ProblemShare>(units.problems(), own_problems(units, work, shard_));
}

void SectionShare::mark(io::OutputBundle& output, const cli::Report& report) const {
  ShardMarks marks;
  marks.shard = shard_;
  marks.run = run_of(arguments_);
  const auto [first, last] = problems_ ? std::pair{std::size_t{0}, sections_.size()} : own();
  for (std::size_t n = first; n < last; ++n) {
    const Section& section = sections_[n];
    if (!problems_) marks.own.push_back(section.group);
    const std::string& group = section.group;
    const ResultPlan& whole = section.whole;
    for (const std::string& name : whole.without) marks.left_out.push_back(path_in(group, name));
    for (const std::string& name : whole.removed_attributes) {
      marks.removed.push_back(path_in(group, name));
    }
    marks.warnings.outdated.insert(whole.left_out.begin(), whole.left_out.end());
  }
  if (problems_) {
    marks.divided.emplace(ShardMarks::Divided{sections_.front().group, *problems_});
  } else {
    for (const Section& section : sections_) marks.groups.push_back(section.group);
  }
  marks.report = notes_;
  marks.warnings.own = report.own_warnings();
  marks.warnings.unused = unused_;
  write_shard_marks(marks, output);
}

std::string SectionShare::without_work() const {
  const std::string units = problems_ ? cli::counted(problems_->problems(), "problem")
                                      : cli::counted(sections_.size(), "group");
  return fmt::format("shard {} of {} has none of the {}", shard_.number, shard_.count, units);
}

}  // namespace attn::tools
