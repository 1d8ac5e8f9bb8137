#include "tensor_join/report_join.hpp"

#include <functional>
#include <stdexcept>
#include <utility>

#include <nlohmann/json.hpp>

#include "attnkit/error.hpp"
#include "common/group_report.hpp"
#include "reports/column_notes.hpp"
#include "reports/column_reporter.hpp"
#include "reports/dual_reporter.hpp"

namespace attn::tools {
namespace {

using Json = nlohmann::ordered_json;
using Parts = std::vector<ShardSet::ReportPart>;  // of one section

// Runs `read` on a shard's notes, whose damage shows as JSON that does not fit.
template <class Read>
auto of_part(const ShardSet::ReportPart& part, const Read& read) {
  try {
    return read();
  } catch (const Json::exception&) {
  } catch (const std::out_of_range&) {
  }
  throw Error(Failure::input, part.file + ": the notes of its report are damaged");
}

ColumnNotes columns_of(const Parts& parts) {
  std::optional<ColumnNotes> whole;
  for (const ShardSet::ReportPart& part : parts) {
    of_part(part, [&] {
      ColumnNotes own = columns_of(*part.notes, part.bundle->group(part.notes->group));
      if (!part.heads) {
        whole = std::move(own);
        return true;
      }
      if (!whole) whole = whole_of(own);
      place_heads(own, *part.heads, *whole);
      return true;
    });
  }
  return *std::move(whole);
}

DualNotes dual_of(const Parts& parts) {
  std::optional<DualNotes> whole;
  for (const ShardSet::ReportPart& part : parts) {
    of_part(part, [&] {
      DualNotes own = dual_of(*part.notes);
      if (!part.heads) {
        whole = std::move(own);
        return true;
      }
      if (!whole) {
        whole = own;
        whole->heads.assign(static_cast<std::size_t>(element_count(own.heading.leading)), {});
      }
      for (std::size_t n = 0; n < part.heads->size(); ++n) {
        whole->heads.at(static_cast<std::size_t>((*part.heads)[n])) = own.heads.at(n);
      }
      return true;
    });
  }
  return *std::move(whole);
}

ReportWishes wishes_of(const cli::Arguments& arguments, bool several) {
  return {.several = several,
          .each = !several || arguments.verbose,
          .all = true,
          .json = arguments.json.has_value()};
}

// Adds every section to `groups`, with the parameters that it had.
template <class Add>
void add_sections(const std::vector<Parts>& sections, GroupReport& groups, cli::Report& report,
                  const Add& add) {
  for (const Parts& parts : sections) {
    report.params() =
        of_part(parts.front(), [&] { return Json::parse(parts.front().notes->params); });
    add(parts, groups);
  }
}

cli::Outcome report_columns(const cli::Arguments& arguments, const std::vector<Parts>& sections,
                            GroupReport& groups, cli::Report& report) {
  std::optional<ColumnReporter> reporter;
  std::string name;
  add_sections(sections, groups, report, [&](const Parts& parts, GroupReport& all) {
    ColumnNotes section = columns_of(parts);
    if (!reporter) reporter.emplace(section.wanted, wishes_of(arguments, section.several));
    name = section.input;
    all.add(section.section, report,
            [&] { reporter->add(section.section, section.heading, section.statistics, report); });
  });
  reporter->conclude(name, report);
  reporter->finish(groups, report);
  cli::Outcome outcome;
  outcome.status = reporter->verdict().status();
  return outcome;
}

cli::Outcome report_duals(const cli::Arguments& arguments, const std::vector<Parts>& sections,
                          GroupReport& groups, cli::Report& report) {
  std::optional<DualReporter> reporter;
  std::string name;
  add_sections(sections, groups, report, [&](const Parts& parts, GroupReport& all) {
    const DualNotes section = dual_of(parts);
    if (!reporter) reporter.emplace(wishes_of(arguments, section.several));
    name = section.input;
    all.add(section.section, report, [&] { reporter->add(section, report); });
  });
  return reporter->conclude(name, groups, report);
}

}  // namespace

std::optional<cli::Outcome> join_report(const cli::Arguments& arguments, const ShardSet& shards,
                                        cli::Report& report) {
  const std::vector<Parts> sections = shards.report_parts();
  if (sections.empty()) return std::nullopt;
  const std::string tool = shards.tool();
  const Json own_params = report.params();
  Json own_result = report.result();
  GroupReport groups;
  std::optional<cli::Outcome> outcome;
  if (tool == "explain-away-stats") {
    outcome = report_columns(arguments, sections, groups, report);
  } else if (tool == "lambda-solve") {
    outcome = report_duals(arguments, sections, groups, report);
  } else {
    throw Error(Failure::input, "the shards have notes of a report of " + tool +
                                    ", which this version of tensor-join does not know");
  }
  own_result["report"] = {
      {"tool", tool}, {"params", report.params()}, {"result", std::move(report.result())}};
  report.result() = std::move(own_result);
  report.params() = own_params;
  return outcome;
}

}  // namespace attn::tools
