#include "reports/column_reporter.hpp"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "cli/words.hpp"
#include "common/tables/convergence_words.hpp"
#include "reports/column_page.hpp"
#include "reports/column_report.hpp"

namespace attn::tools {
namespace {

std::vector<std::string> schemes_in(const ColumnStatistics& statistics) {
  std::vector<std::string> names;
  for (const SchemeColumns& scheme : statistics.schemes) names.push_back(scheme.name);
  return names;
}

}  // namespace

void ColumnVerdict::add(const ColumnStatistics& statistics, const ColumnSummaries& summaries,
                        const std::string& group, cli::Report& report) {
  for (std::size_t n = 0; n < statistics.schemes.size(); ++n) {
    if (!summaries.schemes[n].all.holds) broken = true;
    if (statistics.schemes[n].converged) continue;
    unconverged = true;
    report.warn_of_whole(statistics.schemes[n].name + " did not converge on every head" +
                         (group.empty() ? "" : " of " + group) +
                         convergence_words(statistics.schemes[n].convergence,
                                           "attn-compute --scheme sinkhorn --iterations") +
                         "; --scheme stored reads its results");
  }
}

const ColumnSummaries& ColumnReporter::add(const SectionName& section, const std::string& heading,
                                           ColumnStatistics& statistics, cli::Report& report) {
  std::vector<PooledHistogram> histograms;
  ColumnSummaries summaries = summarise_columns(statistics, wanted_, histograms);
  // For thousands of heads the JSON is larger than the statistics themselves.
  if (options_.json) report.result() = column_json(statistics, wanted_, summaries);
  verdict_.add(statistics, summaries, section.label, report);
  const std::vector<std::string> schemes = schemes_in(statistics);
  count_explained(schemes, summaries);
  if (options_.several) pool(schemes, histograms);
  groups_.push_back({static_cast<const HeadAxes&>(statistics), section, schemes,
                     std::move(summaries), statistics.terms});
  if (options_.each) print_one(heading, statistics, report);
  return groups_.back().summaries;
}

// The report on the latest section.
void ColumnReporter::print_one(const std::string& heading, const ColumnStatistics& statistics,
                               cli::Report& report) const {
  const std::span<const GroupColumns> latest(&groups_.back(), 1);
  const std::string text = makes_page(latest, wanted_)
                               ? column_page(latest, wanted_)
                               : column_report(statistics, wanted_, latest.front().summaries);
  report.print(cli::one_line(heading) + "\n\n" + text + (options_.several ? "\n" : ""));
}

// Keys that the schemes explain away, over all sections.
void ColumnReporter::count_explained(const std::vector<std::string>& schemes,
                                     const ColumnSummaries& summaries) {
  for (std::size_t n = 0; n < schemes.size(); ++n) {
    const SchemeSummaryOf& all = summaries.schemes[n].all;
    auto found = std::find_if(explained_.begin(), explained_.end(),
                              [&](const auto& of) { return of.scheme == schemes[n]; });
    if (found == explained_.end()) found = explained_.insert(explained_.end(), {schemes[n]});
    found->add({schemes[n], all.sums.explained_away.front().count, all.sums.keys,
                all.enough.explained_away.front().count, all.enough.keys});
  }
}

void ColumnReporter::pool(const std::vector<std::string>& schemes,
                          const std::vector<PooledHistogram>& histograms) {
  for (std::size_t n = 0; n < schemes.size(); ++n) {
    auto found = std::find_if(histograms_.begin(), histograms_.end(),
                              [&](const auto& of) { return of.first == schemes[n]; });
    if (found == histograms_.end()) {
      found = histograms_.insert(histograms_.end(), {schemes[n], PooledHistogram()});
    }
    found->second.add(histograms[n]);
  }
}

void ColumnReporter::conclude(const std::string& name, cli::Report& report) {
  if (options_.all && options_.several) {
    const std::string text = makes_page(groups_, wanted_)
                                 ? column_page(groups_, wanted_)
                                 : groups_report(groups_, wanted_, histograms_);
    report.print(cli::one_line(name) + ": " + text);
  }
  for (const ExplainedKeys& of : explained_) {
    const std::string note = tail_note(of, wanted_.sums.epsilons.front(), enough_words(groups_));
    if (!note.empty()) report.warn_of_whole(note);
  }
}

void ColumnReporter::finish(const GroupReport& groups, cli::Report& report) const {
  groups.conclude(options_.several, report);
  if (options_.several) report.result()["status"] = verdict_.word();
  report.status(verdict_.word());
}

}  // namespace attn::tools
