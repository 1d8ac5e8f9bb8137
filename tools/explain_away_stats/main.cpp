// explain-away-stats: column sums, and what follows from them.

#include <limits>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "attnkit/error.hpp"
#include "common/bundles.hpp"
#include "common/group_report.hpp"
#include "common/head_outputs.hpp"
#include "common/numeric_libraries.hpp"
#include "common/section_tasks.hpp"
#include "explain_away_stats/column_gather.hpp"
#include "explain_away_stats/column_groups.hpp"
#include "explain_away_stats/column_report.hpp"
#include "explain_away_stats/column_task.hpp"

namespace attn::tools {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

cli::Declaration declare() {
  cli::Declaration d("explain-away-stats", "Finds the keys that attention explains away",
                     cli::Role::report);
  d.about(
      "The column sum of key j, c_j = sum_i weight_ij, is all the attention it gets. A key is "
      "explained away when c_j < epsilon. Softmax (unas) may do that to any key; under dnas c_j is "
      "at "
      "least 1/Lk. Computed anew from q and k with the scores the bundle was made with, or taken "
      "from "
      "what it holds (stored: its weights, else its potentials).");
  d.about(
      "Options of the scores win over the attributes of the bundle, which -o copies as they are; "
      "attribute attn_result of each result says what it was made with.");
  d.section("Statistics");
  d.choices("scheme", {"unas", "dnas", "hnas", "sinkhorn", "fenchel", stored},
            "Normalisations to compare. Default: unas,dnas; stored where there are no q and k.");
  d.numbers("epsilon", "E", "Thresholds of explaining away.", {0, infinity, true, true}, {1e-8});
  d.number("hybrid", "U", "u of hnas. Default: the bundle's.", {0, 1, false, false});
  d.integer("bins", "N", "Bins of the histogram of log10 c_j. Default: up to 24, at round places.",
            1, 10000);
  d.integer("top", "N", "How many keys with the least and the most attention to list.", 0,
            Index{1} << 40, 10);
  d.flag("tsv",
         "Print the figures of every group, head and scheme as tab-separated values, with a line "
         "of names, in place of the report.");
  d.section("Scores");
  declare_score_options(d, true);
  declare_sections(d);
  d.example("attn-compute --scheme dnas layer3.h5 | explain-away-stats", "unas beside dnas");
  d.example("explain-away-stats --epsilon 1e-8,1e-3 --json=stats.json layer3.h5",
            "two thresholds, and the figures for a script");
  d.example("explain-away-stats --each '/text/*/layer*' --map q=Q,k=K --causal dump.h5",
            "a model's whole dump: layers by heads");
  d.exit_status(1, "a proven bound on the column sums is broken, or sinkhorn did not converge");
  return d;
}

SummaryOptions summary_options(const cli::Arguments& arguments) {
  SummaryOptions options;
  options.epsilons = arguments.numbers("epsilon");
  options.top = arguments.integer("top").value();
  options.bins = arguments.integer("bins");
  return options;
}

// Writes the vectors of each head as they are found: of all heads together they are large.
class VectorWriter {
 public:
  VectorWriter(io::OutputBundle bundle, const ColumnTask& task, cli::Report& report)
      : bundle_(std::move(bundle)), outputs_(bundle_, task.input.leading, report) {
    for (const std::string& scheme : task.options.schemes) {
      outputs_.create(scheme + "_col_sum", DType::f64, {task.input.keys}, {"key"});
      outputs_.create(scheme + "_row_entropy", DType::f64, {task.input.queries}, {"query"});
    }
  }

  void write(const std::string& scheme, Index head, const HeadColumns& columns) {
    outputs_.write(scheme + "_col_sum", head, {static_cast<Index>(columns.sums.size())},
                   columns.sums.data());
    outputs_.write(scheme + "_row_entropy", head, {static_cast<Index>(columns.entropies.size())},
                   columns.entropies.data());
  }

 private:
  io::OutputBundle bundle_;
  HeadOutputs outputs_;
};

// The tables of one section, as text.
std::string long_report(const ColumnTask& task, const ColumnStatistics& statistics,
                        const SummaryOptions& wanted, const ColumnSummaries& summaries) {
  const AttentionInput& input = task.input;
  const ScoreOptions& scores = input.options;
  const std::string energy =
      input.q ? scores.energy_of(task.options.scored_schemes().front()) : "as stored";
  return fmt::format("{}: {}, {}, {}\n\n", task.bundle.description(),
                     times(join(input.leading, {input.queries, input.keys})), energy,
                     task.options.f64 ? "float64" : "float32") +
         column_report(statistics, wanted, summaries);
}

// Of all sections: a broken bound is the worst that can be said.
struct Verdict {
  bool broken = false;
  bool unconverged = false;

  std::string word() const { return broken ? "no" : (unconverged ? "not_converged" : "ok"); }
  int status() const { return broken || unconverged ? 1 : 0; }

  void add(const ColumnStatistics& statistics, const ColumnSummaries& summaries,
           const std::string& group, cli::Report& report) {
    for (std::size_t n = 0; n < statistics.schemes.size(); ++n) {
      if (!summaries.schemes[n].all.holds) broken = true;
      if (statistics.schemes[n].converged) continue;
      unconverged = true;
      report.warn(statistics.schemes[n].name + " did not converge on every head" +
                  (group.empty() ? "" : " of " + group));
    }
  }
};

// Lines of figures for a program, or tables for a person.
void report_groups(const cli::Arguments& arguments, const std::vector<GroupColumns>& groups,
                   const Sections& sections, cli::Report& report) {
  const SummaryOptions wanted = summary_options(arguments);
  if (arguments.flag("tsv")) {
    report.print_data(groups_tsv(groups, wanted));
  } else if (sections.each()) {
    report.print(sections.whole().description() + ": " + groups_report(groups, wanted));
  }
}

void require_one_report(const cli::Arguments& arguments) {
  if (!arguments.flag("tsv")) return;
  if (arguments.json && arguments.json->empty()) {
    throw Error(Failure::usage, "--tsv and --json both go to standard output",
                "name a file: --json=FILE");
  }
  if (arguments.bundle_to_stdout()) {
    throw Error(Failure::usage, "--tsv and the bundle both go to standard output",
                "name a file: -o FILE");
  }
}

// Everything is looked at before anything is computed.
Survey look_at_all(const cli::Arguments& arguments, const Sections& sections, GroupReport& groups,
                   cli::Report& report) {
  Survey found;
  for (std::size_t n = 0; n < sections.size(); ++n) {
    const ColumnTask task(arguments, sections.open(n));
    for (const auto& dataset : task.input.datasets()) report_input(report, dataset);
    found.problems += task.input.problems;
    if (arguments.output && !arguments.dry_run) {
      found.plans.push_back(
          plan_results(arguments, task.bundle, task.effect(arguments), sections.renamed()));
    }
    if (!arguments.dry_run) continue;
    if (sections.each()) {
      report.print(fmt::format("{}{}\n", n == 0 ? "" : "\n", sections.groups()[n]));
    }
    groups.add(sections.groups()[n], report, [&] {
      task.report_params(report);
      report_column_cost(arguments, task, report);
    });
  }
  return found;
}

void finish(const Sections& sections, const GroupReport& groups, const Verdict& verdict,
            cli::Report& report) {
  if (sections.each()) {
    groups.write(report);
    report.result()["status"] = verdict.word();
  } else {
    report.result() = groups.last();
  }
  report.status(verdict.word());
}

cli::Outcome run(const cli::Arguments& arguments, cli::Report& report) {
  require_one_report(arguments);
  const Sections sections(arguments, report);
  GroupReport reports;
  const Survey found = look_at_all(arguments, sections, reports, report);
  warn_of_unused(arguments, sections.whole(), report);
  if (arguments.dry_run) {
    finish(sections, reports, {}, report);
    return {};
  }
  std::optional<SectionOutput> output;
  if (arguments.output) output.emplace(arguments, sections, found.plans);
  cli::Progress progress(arguments, "column sums", static_cast<double>(found.problems), "heads");
  std::vector<GroupColumns> groups;
  Verdict verdict;
  for (std::size_t n = 0; n < sections.size(); ++n) {
    const std::string& group = sections.groups()[n];
    const ColumnTask task(arguments, sections.open(n));
    if (task.options.wants(stored) &&
        task.bundle.text_attribute("attn_status") == "not_converged") {
      report.warn("the stored weights had not converged when they were made");
    }
    reports.add(group, report, [&] {
      task.report_params(report);
      std::optional<VectorWriter> writer;
      if (output) writer.emplace(output->open(n), task, report);
      ColumnStatistics statistics = gather_columns(
          arguments, task.options, task.bundle, task.input,
          [&](const std::string& scheme, Index head, const HeadColumns& columns) {
            if (writer) writer->write(scheme, head, columns);
          },
          progress, report);
      read_key_names(task.bundle, statistics, report);
      const SummaryOptions wanted = summary_options(arguments);
      ColumnSummaries summaries = summarise_columns(statistics, wanted);
      // Of thousands of heads it is larger than all that it tells of.
      if (arguments.json) report.result() = column_json(statistics, summaries);
      if (!sections.each() || arguments.verbose) {
        report.print(long_report(task, statistics, wanted, summaries) +
                     (sections.each() ? "\n" : ""));
      }
      verdict.add(statistics, summaries, group, report);
      groups.push_back({group, statistics.leading, task.options.schemes, std::move(summaries)});
    });
  }
  report_groups(arguments, groups, sections, report);
  finish(sections, reports, verdict, report);
  cli::Outcome outcome;
  outcome.status = verdict.status();
  if (output) outcome.commit = commit_of(output->take(report));
  return outcome;
}

}  // namespace
}  // namespace attn::tools

int main(int argc, char** argv) {
  return attn::tools::tool_main(argc, argv, attn::tools::declare(), attn::tools::run,
                                attn::tools::numeric_libraries());
}
