#pragma once

#include <vector>

#include "common/bundles.hpp"
#include "common/group_report.hpp"
#include "common/results.hpp"
#include "common/sections.hpp"

namespace attn::tools {

/// The properties of all sections that are known before the first is computed.
struct Survey {
  std::vector<ResultPlan> plans;  ///< by section
  Index problems = 0;             ///< of all sections
};

/// Makes the Task of every section, so that errors in the last are reported before the first is
/// computed, and lists its datasets in the report. A Task has datasets(), effect(),
/// report_params(report), the InputBundle `bundle` and the AttentionInput `input`.
template <class Task>
Survey survey(const cli::Arguments& arguments, const Sections& sections, cli::Report& report) {
  Survey found;
  for (std::size_t n = 0; n < sections.size(); ++n) {
    const Task task(arguments, sections.open(n));
    for (const auto& dataset : task.datasets()) report_input(report, dataset);
    found.plans.push_back(
        plan_results(arguments, task.bundle, task.effect(arguments), sections.renamed()));
    found.problems += task.input.problems;
  }
  warn_of_unused(arguments, sections.whole(), report);
  return found;
}

/// For --dry-run: `cost(task)` fills in the result of one section.
template <class Task, class Cost>
cli::Outcome report_costs(const cli::Arguments& arguments, const Sections& sections,
                          cli::Report& report, const Cost& cost) {
  GroupReport groups;
  for (std::size_t n = 0; n < sections.size(); ++n) {
    const Task task(arguments, sections.open(n));
    for (const auto& dataset : task.datasets()) report_input(report, dataset);
    task.report_params(report);
    if (sections.each()) report.print((n == 0 ? "" : "\n") + sections.groups()[n] + "\n");
    groups.add(sections.groups()[n], report, [&] { cost(task); });
  }
  warn_of_unused(arguments, sections.whole(), report);
  groups.conclude(sections.each(), report);
  return {};
}

}  // namespace attn::tools
