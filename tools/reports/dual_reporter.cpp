#include "reports/dual_reporter.hpp"

#include <utility>

#include <nlohmann/json.hpp>

namespace attn::tools {

std::optional<std::vector<double>> DualReporter::add(const DualNotes& section,
                                                     cli::Report& report) {
  const std::vector<DualHead>& heads = section.heads;
  const DualHeading& heading = section.heading;
  for (const DualHead& head : heads) all_.add(head);
  heads_ += static_cast<Index>(heads.size());
  std::optional<std::vector<double>> averaged;
  if (section.averages) {
    averaged = mean_over_heads(heads, heading.leading);
    if (!averaged_) averaged_.emplace();
    averaged_->insert(averaged_->end(), averaged->begin(), averaged->end());
  }
  report_dual(heading, heads, averaged, report);
  const std::string& label = section.section.label;
  if (options_.each) report.print(dual_text(heading, heads, averaged, label));
  shape_ = join(heading.leading, {heading.queries, heading.keys});
  if (options_.several) groups_.push_back(dual_group(label, heads, heading.leading, averaged));
  return averaged;
}

cli::Outcome DualReporter::conclude(const std::string& name, const GroupReport& groups,
                                    cli::Report& report) {
  if (options_.all && options_.several) report.print(dual_groups_text(name, groups_));
  return conclude_dual(shape_, all_, averaged_, heads_, groups, options_.several, report);
}

}  // namespace attn::tools
