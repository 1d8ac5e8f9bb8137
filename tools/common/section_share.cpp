#include "common/section_share.hpp"

#include <fmt/format.h>

#include "common/shard_marks.hpp"

namespace attn::tools {

void SectionShare::add(const SectionName& name, double work, const ResultPlan& whole) {
  work_.push_back(work);
  Section section{name.group, whole.without, whole.removed_attributes};
  for (const auto& named : arguments_.named_inputs) section.left_out.push_back(named.first);
  sections_.push_back(std::move(section));
}

void SectionShare::mark(io::OutputBundle& output) const {
  ShardMarks marks;
  marks.shard = shard_;
  marks.run = run_of(arguments_);
  for (const Section& section : sections_) marks.groups.push_back(section.group);
  const auto [first, last] = own();
  for (std::size_t n = first; n < last; ++n) {
    const Section& section = sections_[n];
    const auto inside = [&](const std::string& name) { return section.group + "/" + name; };
    marks.own.push_back(section.group);
    for (const std::string& name : section.left_out) marks.left_out.push_back(inside(name));
    for (const std::string& name : section.removed) marks.removed.push_back(inside(name));
  }
  write_shard_marks(marks, output);
}

std::string SectionShare::without_sections() const {
  return fmt::format("shard {} of {} has none of the {} groups", shard_.number, shard_.count,
                     sections_.size());
}

}  // namespace attn::tools
