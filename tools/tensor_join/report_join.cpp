#include "tensor_join/report_join.hpp"

#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "attnkit/error.hpp"
#include "common/tables/group_report.hpp"
#include "common/tables/table_options.hpp"
#include "reports/bulk_report.hpp"
#include "reports/collapse_report.hpp"
#include "reports/column_notes.hpp"
#include "reports/column_reporter.hpp"
#include "reports/column_table.hpp"
#include "reports/dual_reporter.hpp"

namespace attn::tools {
namespace {

using Json = nlohmann::ordered_json;
using Parts = std::vector<ShardSet::ReportPart>;  // of one section

// The share of `part` in a section whose heads are divided.
std::optional<HeadShare> share_of(const ShardSet::ReportPart& part, Index all) {
  if (part.heads == nullptr) return std::nullopt;
  return HeadShare{static_cast<Index>(part.heads->size()), all};
}

// Refuses parts of a section that differ in their common data.
void require_alike(const Parts& parts) {
  std::optional<CheckedJson> first;
  for (const ShardSet::ReportPart& part : parts) {
    const CheckedJson own = figures_of(*part.notes).at("common");
    if (!first) first = own;
    if (own.json() == first->json()) continue;
    throw Error(Failure::input, fmt::format("{} and {} have notes of different reports",
                                            parts.front().file, part.file));
  }
}

ColumnNotes columns_of(const Parts& parts, Index all) {
  std::optional<ColumnNotes> whole;
  for (const ShardSet::ReportPart& part : parts) {
    ColumnNotes own =
        columns_of(*part.notes, part.bundle->group(part.notes->group), share_of(part, all));
    if (part.heads == nullptr) return own;
    if (!whole) whole = whole_of(own);
    place_heads(own, *part.heads, *whole);
  }
  return *std::move(whole);
}

DualNotes dual_of(const Parts& parts, Index all) {
  std::optional<DualNotes> whole;
  for (const ShardSet::ReportPart& part : parts) {
    DualNotes own = dual_of(*part.notes, share_of(part, all));
    if (part.heads == nullptr) return own;
    if (!whole) {
      whole = own;
      whole->heads.assign(static_cast<std::size_t>(all), {});
    }
    for (std::size_t n = 0; n < part.heads->size(); ++n) {
      whole->heads[static_cast<std::size_t>((*part.heads)[n])] = own.heads[n];
    }
  }
  return *std::move(whole);
}

BulkNotes bulk_of(const Parts& parts, Index all) {
  std::optional<BulkNotes> whole;
  for (const ShardSet::ReportPart& part : parts) {
    const BulkNotes own = bulk_of(*part.notes, share_of(part, all));
    if (whole) {
      whole->figures.add(own.figures);
    } else {
      whole = own;
    }
  }
  return *std::move(whole);
}

// The figures of all sets, from shards that divide the sets.
template <class Figures>
Figures collapse_of(const Parts& parts, Index sets, Figures (*read)(const ReportNotes&, Index)) {
  std::optional<Figures> whole;
  for (const ShardSet::ReportPart& part : parts) {
    const Figures own = read(*part.notes, static_cast<Index>(part.heads->size()));
    if (!whole) whole = whole_of(own, sets);
    place_sets(own, *part.heads, *whole);
  }
  return *std::move(whole);
}

// Makes the report of all sections of one tool.
class ReportJoin {
 public:
  ReportJoin(const cli::Arguments& arguments, const ShardSet& shards,
             const std::vector<std::vector<std::string>>& warnings, cli::Report& report)
      : arguments_(arguments),
        shards_(shards),
        sections_(shards.report_parts()),
        warnings_(warnings),
        report_(report) {}

  bool empty() const { return sections_.empty(); }

  cli::Outcome run() {
    for (const Parts& parts : sections_) require_alike(parts);
    const std::string& tool = shards_.tool();
    if (tool == "explain-away-stats") return report_columns();
    if (tool == "lambda-solve") return report_duals();
    if (tool == "mode-collapse-sim") return report_collapse();
    if (tool == "sinkhorn-iter") return report_bulk();
    throw Error(Failure::input, "the shards have notes of a report of " + tool +
                                    ", which this version of tensor-join does not know");
  }

 private:
  ReportOptions options(bool several) const {
    const bool text = !table_->in_place_of_text();
    return {.several = several,
            .each = text && (!several || arguments_.verbose),
            .all = text,
            .json = arguments_.json.has_value()};
  }

  // Adds every section to the groups, with its parameters.
  template <class Add>
  void add_sections(const Add& add) {
    for (const Parts& parts : sections_) {
      take_params(parts.front());
      warn_of_next();
      add(parts);
    }
    while (warned_ < warnings_.size()) warn_of_next();
  }

  // The warnings of one run before its report on the next section.
  void warn_of_next() {
    if (warned_ == warnings_.size()) return;
    for (const std::string& line : warnings_[warned_]) report_.warn(line);
    ++warned_;
  }

  void take_params(const ShardSet::ReportPart& part) {
    const CheckedJson params(part.notes->params, part.notes->place + "/params");
    if (!params.json().is_object()) throw params.refused("an object");
    report_.params() = params.json();
  }

  cli::Outcome report_columns() {
    std::optional<ColumnReporter> reporter;
    ColumnSummaryOptions wanted;  // the first section's, which the report has
    std::string name;
    add_sections([&](const Parts& parts) {
      ColumnNotes section = columns_of(parts, all_heads());
      if (!reporter) {
        wanted = section.wanted;
        table_.emplace(arguments_, column_table_columns(wanted, false));
        reporter.emplace(wanted, options(section.several));
      }
      name = section.input;
      groups_.add(section.section, report_, [&] {
        std::vector<std::string> schemes;
        for (const SchemeColumns& scheme : section.statistics.schemes) {
          schemes.push_back(scheme.name);
        }
        const ColumnSummaries& summaries =
            reporter->add(section.section, section.heading, section.statistics, report_);
        add_rows(column_table_rows(section.section, section.statistics, schemes, wanted, summaries,
                                   nullptr));
      });
    });
    table_->print(report_);
    reporter->conclude(name, report_);
    reporter->finish(groups_, report_);
    cli::Outcome outcome;
    outcome.status = reporter->verdict().status();
    outcome.commit = table_->commit();
    return outcome;
  }

  cli::Outcome report_duals() {
    std::optional<DualReporter> reporter;
    std::string name;
    table_.emplace(arguments_, dual_table_columns());
    add_sections([&](const Parts& parts) {
      const DualNotes section = dual_of(parts, all_heads());
      if (!reporter) reporter.emplace(options(section.several));
      name = section.input;
      groups_.add(section.section, report_, [&] {
        const auto averaged = reporter->add(section, report_);
        add_rows(dual_table_rows(section.heading, section.section, section.heads, averaged));
      });
    });
    table_->print(report_);
    cli::Outcome outcome = reporter->conclude(name, groups_, report_);
    outcome.commit = table_->commit();
    return outcome;
  }

  cli::Outcome report_collapse() {
    const Parts& parts = sections_.front();
    const ShardSet::ReportPart& first = parts.front();
    take_params(first);
    if (first.heads == nullptr || sections_.size() != 1) {
      throw Error(Failure::input, first.file + ": the notes of its report are not those of sets");
    }
    warn_of_next();
    report_.result() = Json::object();
    if (verb_of(*first.notes) == "em") {
      return report_em(collapse_of(parts, all_heads(), em_of), report_);
    }
    return report_simulation(collapse_of(parts, all_heads(), simulation_of), report_);
  }

  cli::Outcome report_bulk() {
    BulkReporter reporter;
    add_sections([&](const Parts& parts) {
      const BulkNotes section = bulk_of(parts, all_heads());
      groups_.add(section.section, report_, [&] { reporter.add(section, report_); });
    });
    return reporter.conclude(groups_, report_);
  }

  // For the section whose heads are divided.
  Index all_heads() const { return static_cast<Index>(shards_.units()); }

  void add_rows(std::vector<std::vector<Cell>> rows) {
    for (std::vector<Cell>& row : rows) table_->add(std::move(row));
  }

  const cli::Arguments& arguments_;
  const ShardSet& shards_;
  const std::vector<Parts> sections_;
  const std::vector<std::vector<std::string>>& warnings_;
  std::size_t warned_ = 0;  // number of lists of warnings printed so far
  cli::Report& report_;
  GroupReport groups_;
  std::optional<TableOutput> table_;
};

}  // namespace

void require_table(const cli::Arguments& arguments, const ShardSet& shards) {
  std::string option;
  for (const char* const name : {"tsv", "csv", "sort", "top"}) {
    if (arguments.given(name)) option = std::string("--") + name;
  }
  if (arguments.table_file) option = "-o " + *arguments.table_file;
  const std::string& tool = shards.tool();
  const bool has_table = tool == "explain-away-stats" || tool == "lambda-solve";
  if (option.empty() || (has_table && !shards.report_parts().empty())) return;
  throw Error(Failure::usage,
              fmt::format("{} is for the table of explain-away-stats or lambda-solve, but the "
                          "shards are of {}",
                          option, tool));
}

std::optional<cli::Outcome> join_report(const cli::Arguments& arguments, const ShardSet& shards,
                                        const std::vector<std::vector<std::string>>& warnings,
                                        cli::Report& report) {
  ReportJoin join(arguments, shards, warnings, report);
  if (join.empty()) {
    for (const std::vector<std::string>& lines : warnings) {
      for (const std::string& line : lines) report.warn(line);
    }
    return std::nullopt;
  }
  const Json own_params = report.params();
  Json own_result = report.result();
  cli::Outcome outcome = join.run();
  own_result["report"] = {
      {"tool", shards.tool()}, {"params", report.params()}, {"result", std::move(report.result())}};
  report.result() = std::move(own_result);
  report.params() = own_params;
  return outcome;
}

}  // namespace attn::tools
