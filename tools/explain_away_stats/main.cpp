// explain-away-stats: column sums and their statistics.

#include <limits>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "attnkit/error.hpp"
#include "common/bundles.hpp"
#include "common/convergence_words.hpp"
#include "common/group_report.hpp"
#include "common/head_outputs.hpp"
#include "common/numeric_libraries.hpp"
#include "common/section_tool.hpp"
#include "explain_away_stats/column_datasets.hpp"
#include "explain_away_stats/column_gather.hpp"
#include "explain_away_stats/column_groups.hpp"
#include "explain_away_stats/column_report.hpp"
#include "explain_away_stats/column_task.hpp"
#include "scheme/table.hpp"

namespace attn::tools {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

cli::Declaration declare() {
  cli::Declaration d("explain-away-stats", "Finds the keys that attention explains away",
                     cli::Role::report);
  d.about(
      "The column sum of key j, c_j = sum_i weight_ij, is the total attention that it receives. A "
      "key is explained away if c_j < epsilon. Softmax (unas) can explain away any key; under dnas "
      "c_j is at least 1/Lk. The weights are computed from q and k, with the score options that "
      "the "
      "bundle records.");
  d.about(
      "Options on the command line take precedence over the attributes of the bundle. -o copies "
      "these attributes unchanged; the attribute attn_result of each result records the settings "
      "that were used.");
  d.section("Statistics");
  std::vector<std::string> choices(scheme_names.begin(), scheme_names.end());
  choices.emplace_back(stored);
  d.choices(
      "scheme", choices,
      "Normalisations to compare. stored: the weights in the bundle, or those that its potentials "
      "define.");
  d.default_words("unas,dnas, or stored if the bundle has weights but no q and k");
  d.numbers("epsilon", "E", "Thresholds below which a key counts as explained away.",
            {0, infinity, true, true}, {1e-8});
  d.number("hybrid", "U", "Share u of dnas in hnas.", {0, 1, false, false})
      .default_words("as recorded in the bundle, else its dataset hybrid");
  d.integer("bins", "N", "Bins in the histogram of log10 c_j.", 1, 10000)
      .default_words("up to 24, with round edges");
  d.integer("top", "N", "Number of keys with the least and the most attention to list.", 0,
            Index{1} << 40, 10);
  d.flag("tsv",
         "Prints the figures of every group, head and scheme as tab-separated values with a header "
         "line, instead of the report.");
  d.section("Scores");
  declare_score_options(d, true);
  declare_sections(d);
  declare_column_datasets(d);
  d.example("attn-compute --scheme dnas layer3.h5 | explain-away-stats", "Compare unas and dnas.");
  d.example("explain-away-stats --epsilon 1e-8,1e-3 --json=stats.json layer3.h5",
            "Two thresholds, and the figures for a script.");
  d.example("explain-away-stats --each '/text/*/layer*' --map q=Q,k=K --causal dump.h5",
            "All layers and heads of a model's dump.");
  d.exit_status(1, "a proven bound on the column sums is violated, or sinkhorn did not converge");
  return d;
}

SummaryOptions summary_options(const cli::Arguments& arguments) {
  SummaryOptions options;
  options.epsilons = arguments.numbers("epsilon");
  options.top = arguments.integer("top").value();
  options.bins = arguments.integer("bins");
  return options;
}

// Writes the vectors of each head as they are computed, since those of all heads are large.
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

// Over all sections: a violated bound is the worst outcome.
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
                  (group.empty() ? "" : " of " + group) +
                  convergence_words(statistics.schemes[n].convergence, ""));
    }
  }
};

// Lines of figures for programs, or tables for people.
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

class ColumnTool : public SectionTool<ColumnTask> {
  using SectionTool::SectionTool;

  void report_cost(const ColumnTask& task) override {
    report_column_cost(arguments(), task, report());
  }

  void conclude_costs(const GroupReport& groups) override { finish(groups); }

  void begin(Index problems) override {
    progress_.emplace(arguments(), "column sums", static_cast<double>(problems), "heads");
  }

  void compute(const ColumnTask& task, const std::string& group,
               std::optional<io::OutputBundle> results) override {
    if (task.options.wants(stored) &&
        task.bundle.text_attribute("attn_status") == "not_converged") {
      report().warn("the stored weights had not converged when they were made");
    }
    std::optional<VectorWriter> writer;
    if (results) writer.emplace(*std::move(results), task, report());
    ColumnStatistics statistics = gather_columns(
        arguments(), task.options, task.bundle, task.input,
        [&](const std::string& scheme, Index head, const HeadColumns& columns) {
          if (writer) writer->write(scheme, head, columns);
        },
        *progress_, report());
    read_key_names(task.bundle, statistics, report());
    summarise(task, group, statistics);
  }

  void summarise(const ColumnTask& task, const std::string& group, ColumnStatistics& statistics) {
    const SummaryOptions wanted = summary_options(arguments());
    ColumnSummaries summaries = summarise_columns(statistics, wanted);
    // For thousands of heads the JSON is larger than the statistics themselves.
    if (arguments().json) report().result() = column_json(statistics, summaries);
    const bool each = sections().each();
    if (!each || arguments().verbose) {
      report().print(long_report(task, statistics, wanted, summaries) + (each ? "\n" : ""));
    }
    verdict_.add(statistics, summaries, group, report());
    groups_.push_back({group, statistics.leading, task.options.schemes, std::move(summaries)});
  }

  cli::Outcome conclude(const GroupReport& groups) override {
    report_groups(arguments(), groups_, sections(), report());
    finish(groups);
    cli::Outcome outcome;
    outcome.status = verdict_.status();
    return outcome;
  }

  void finish(const GroupReport& groups) {
    groups.conclude(sections().each(), report());
    if (sections().each()) report().result()["status"] = verdict_.word();
    report().status(verdict_.word());
  }

  std::optional<cli::Progress> progress_;
  std::vector<GroupColumns> groups_;
  Verdict verdict_;
};

cli::Outcome run(const cli::Arguments& arguments, cli::Report& report) {
  require_one_report(arguments);
  return ColumnTool(arguments, report).run();
}

}  // namespace
}  // namespace attn::tools

int main(int argc, char** argv) {
  return attn::tools::tool_main(argc, argv, attn::tools::declare(), attn::tools::run,
                                attn::tools::numeric_libraries());
}
