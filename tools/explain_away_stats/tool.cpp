// explain-away-stats: column sums and their statistics.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "attnkit/error.hpp"
#include "cli/words.hpp"
#include "common/frame/bundles.hpp"
#include "common/frame/section_tool.hpp"
#include "common/frame/tool.hpp"
#include "common/heads/input_warnings.hpp"
#include "common/options/window_words.hpp"
#include "common/outputs/head_outputs.hpp"
#include "common/process/numeric_libraries.hpp"
#include "common/runs/ranks.hpp"
#include "common/tables/group_report.hpp"
#include "common/tables/table_options.hpp"
#include "explain_away_stats/column_base.hpp"
#include "explain_away_stats/column_comparison.hpp"
#include "explain_away_stats/column_gather.hpp"
#include "explain_away_stats/column_task.hpp"
#include "explain_away_stats/line_table.hpp"
#include "reports/column_notes.hpp"
#include "reports/column_report.hpp"
#include "reports/column_reporter.hpp"
#include "reports/column_table.hpp"
#include "scheme/scheme_description.hpp"

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
  std::vector<std::string> choices;
  for (const SchemeDescription* scheme : schemes()) {
    if (!scheme->is_transport()) choices.emplace_back(scheme->name());
  }
  choices.emplace_back(stored);
  d.choices("scheme", choices,
            "Normalisations to compare. stored: the weights in the bundle, or the weights that its "
            "potentials define.");
  d.synonym("softmax", "unas");
  d.default_words("unas,dnas, or stored if there are weights but nothing to compute scores from");
  d.numbers("epsilon", "E", "Thresholds below which a key counts as explained away.",
            {0, infinity, true, true}, {1e-8});
  d.numbers("hybrid", "U,...", "Share u of dnas in hnas. Several values make a sweep, a row each.",
            {0, 1, false, false})
      .default_words("as recorded in the bundle, else its dataset hybrid");
  d.integer("min-queries", "N",
            "Number of queries for a meaningful column sum of a key: under a causal mask, the last "
            "keys have fewer. The keys explained away are counted among all keys, and among those "
            "with at least N queries.",
            1, Index{1} << 40)
      .default_words("a tenth of the queries of each sequence, at least 1");
  d.integer("bins", "N", "Bins in the histogram of log10 c_j.", 1, 10000)
      .default_words("up to 25, each a part of a decade or some whole ones");
  d.integer("top", "N",
            "Number of keys with the least and the most attention to list; with --sort, the number "
            "of rows to show.",
            0, Index{1} << 40, 10);
  d.integers("top-shares", "K,...",
             "Reports the share of the attention that the K keys with the most get.", 1,
             Index{1} << 40, {1, 10});
  d.number("concentration", "X",
           "Names the heads in which a key with enough queries gets more than X of their weight, "
           "on average.",
           {0, 1}, 0.3);
  d.integer(
       "sinks", "N",
       "Takes the first N keys that some query may attend to as sinks: reports their share of "
       "the attention, the mean norm of their values and of the others, the stable rank of the "
       "output with and without them, and the largest |score|. Prints all tables by head.",
       1, Index{1} << 40)
      .default_words("no such figures");
  d.choice("rest", {"refused", "sink"},
           "What a row of stored weights lacks to 1: an error, or the weight of a sink.",
           "refused");
  d.text("heads", "LIST",
         "Reports only these heads of the queries, such as 0,3,8:12,-1: places along the last of "
         "the leading axes, in every group. Each keeps its number and, where heads share keys, its "
         "keys.")
      .default_words("all");
  d.flag(
      "full",
      "Prints the tables by head and the lists of keys for any number of heads, as --top does. "
      "Without them, more than 24 heads make one page: the finding, the heads that stand out, and "
      "a line for each group.");
  declare_table_options(d, "group, head and scheme", {.own_top = true});
  d.choice(
      "rows", {"heads", "keys", "queries"},
      "What a row of --tsv and --csv is about: a head, each of its keys (column sums), or each of "
      "its queries (entropies).",
      "heads");
  d.section("Comparison");
  d.text("against", "BASE",
         "Compares the statistics of each head with those of the same group and head of BASE, a "
         "bundle that is read with the same options: what changed from BASE to INPUT, in place of "
         "the report.");
  d.text(
      "threshold", "LIST",
      "Ends with 1 if a figure of a head changed by more than X: X for all figures, or FIGURE=X, "
      "such as entropy=0.1, separated by commas. Changes are differences; of enough_min_c, "
      "differences of log10.");
  d.section("Scores");
  declare_score_options(d, true);
  declare_sections(d, "heads");
  declare_ranks(d);
  declare_restart(d);
  d.several_inputs();
  d.bf16();
  declare_column_datasets(d);
  d.example("attn-compute --scheme dnas layer3.h5 | explain-away-stats", "Compare unas and dnas.");
  d.example("explain-away-stats --epsilon 1e-8,1e-3 --json=stats.json layer3.h5",
            "Two thresholds, and the figures for a script.");
  d.example("explain-away-stats --each '/text/*/layer*' --map q=Q,k=K --causal dump.h5",
            "All layers and heads of a model's dump.");
  d.example("explain-away-stats --heads 0,8:12 --tsv dump.h5", "Some heads of every layer.");
  d.example("explain-away-stats --against base.h5 --threshold entropy=0.1 tuned.h5",
            "What training changed in the attention, as a check for CI.");
  d.exit_status(1,
                "a proven bound on the column sums is violated, sinkhorn did not converge, or a "
                "change is beyond --threshold");
  return d;
}

ColumnSummaryOptions summary_options(const cli::Arguments& arguments) {
  ColumnSummaryOptions options;
  options.sums.epsilons = arguments.numbers("epsilon");
  options.sums.top = arguments.integer("top").value();
  options.sums.bins = arguments.integer("bins");
  options.min_queries = arguments.integer("min-queries");
  options.most = arguments.integers("top-shares");
  options.concentration = arguments.number("concentration").value();
  options.sinks = arguments.integer("sinks");
  const bool asks_for_keys = arguments.given("top") && !arguments.given("sort");
  options.full = arguments.flag("full") || (asks_for_keys && options.sums.top > 0) ||
                 options.sinks.has_value();
  return options;
}

// Writes the vectors of each head as they are computed, since the vectors of all heads are large.
// Packed sequences are written where they lie.
class VectorWriter {
 public:
  VectorWriter(io::OutputBundle bundle, const ColumnTask& task, cli::Report& report)
      : bundle_(std::move(bundle)),
        input_(task.input),
        outputs_(bundle_, task.input.stored_axes(), report, task.input.share.get()),
        first_(task.options().schemes.front()) {
    outputs_.create("queries_of_key", DType::i64, {task.input.stored_keys}, {"key"});
    for (const std::string& scheme : task.options().schemes) {
      outputs_.create(scheme + "_col_sum", DType::f64, {task.input.stored_keys}, {"key"});
      outputs_.create(scheme + "_row_entropy", DType::f64, {task.input.stored_queries}, {"query"});
    }
  }

  void write(const std::string& scheme, Index head, const std::vector<Index>& queries_of_key,
             const HeadColumns& columns) {
    const TileRange& own = input_.part(head).range;
    if (scheme == first_) {  // the same for every scheme
      const std::vector<std::int64_t> queries(queries_of_key.begin(), queries_of_key.end());
      write("queries_of_key", head, own.col0, own.cols, queries);
    }
    write(scheme + "_col_sum", head, own.col0, own.cols, columns.sums);
    write(scheme + "_row_entropy", head, own.row0, own.rows, columns.entropies);
  }

 private:
  template <class T>
  void write(const std::string& name, Index head, Index first, Index count,
             const std::vector<T>& values) {
    if (input_.front.empty()) {
      outputs_.write(name, head, values.data());
    } else if (count > 0) {
      const Index heads = input_.problems / input_.front.front();
      outputs_.write_lines(name, head % heads, first, count, values.data());
    }
  }

  io::OutputBundle bundle_;
  const AttentionInput& input_;
  HeadOutputs outputs_;
  std::string first_;
};

// Causality, window and soft cap, as far as there are any.
std::string terms_of(const ColumnTask& task) {
  const ScoreOptions& scores = task.input.options;
  std::vector<std::string> terms;
  if (task.input.causal != Causal::none)
    terms.push_back("causal " + causal_name(task.input.causal));
  if (!scores.window.is_open()) terms.push_back("window " + window_text(scores.window));
  if (scores.softcap) terms.push_back(fmt::format("softcap {}", *scores.softcap));
  const AttentionInput& input = task.input;
  if (!input.front.empty()) {
    terms.push_back(cli::counted(input.front.front(), "packed sequence"));
  }
  return fmt::format("{}", fmt::join(terms, ", "));
}

// The first line of the report on one section.
std::string heading_of(const ColumnTask& task) {
  const AttentionInput& input = task.input;
  const ScoreOptions& scores = input.options;
  const std::string energy =
      input.q ? scores.energy_of(task.options().scored_schemes().front()) : "as stored";
  std::string terms = terms_of(task);
  if (!terms.empty()) terms = ", " + terms;
  std::string heads;
  if (!input.chosen.empty()) {
    heads =
        fmt::format(", {} of {}", cli::counted(input.axes.chosen.size(), "head"), input.axes.all);
  }
  return fmt::format(
      "{}: {}, {}{}, {}{}", task.bundle.description(),
      times(join(
          Shape(input.axes.leading.begin() + std::ssize(input.front), input.axes.leading.end()),
          {input.stored_queries, input.stored_keys})),
      energy, terms, precision_words(task.options().scores, task.options().f64), heads);
}

// Figures that several heads have together. A stable rank is of one output.
Figures<SchemeSummaryOf> sweep_figures(const ColumnSummaryOptions& options) {
  const auto is_shown = [](const std::string& name) {
    const auto& of_sinks = sink_figure_names();
    return name == "min_c" || name == "entropy" || name == "max_c_per_query" ||
           name.find("share_below_") != std::string::npos ||
           (std::count(of_sinks.begin(), of_sinks.end(), name) > 0 &&
            !name.starts_with("stable_rank"));
  };
  Figures<SchemeSummaryOf> shown;
  for (Figure<SchemeSummaryOf>& figure : column_figures(options)) {
    if (is_shown(figure.name)) shown.push_back(std::move(figure));
  }
  return shown;
}

// One row for each point of a sweep and scheme, pooled over the heads of a section.
Table sweep_table(const ColumnSummaryOptions& options) {
  std::vector<TableColumn> columns = {{"group"}, {"scale"}, {"hybrid"}, {"scheme"}};
  for (const auto& figure : sweep_figures(options)) columns.push_back({figure.name});
  return Table(std::move(columns));
}

void add_sweep_rows(const std::string& label, const SweepPoint& at,
                    const std::vector<std::string>& schemes, const ColumnSummaryOptions& options,
                    const ColumnSummaries& summaries, Table& table) {
  const Figures<SchemeSummaryOf> figures = sweep_figures(options);
  for (std::size_t n = 0; n < schemes.size(); ++n) {
    table.add(cells_of(figures, summaries.schemes[n].all,
                       {label, cell(at.scale), cell(at.hybrid), schemes[n]}));
  }
}

class ColumnTool : public SectionTool<ColumnTask> {
 public:
  ColumnTool(const cli::Arguments& arguments, cli::Report& report)
      : SectionTool(arguments, report),
        wanted_(summary_options(arguments)),
        swept_(sweep_points(arguments).size() > 1),
        rows_(rows_of(arguments)),
        table_(arguments,
               arguments.given("against") ? ColumnComparison::table_columns()
               : rows_ == RowsOf::heads   ? column_table_columns(wanted_, swept_)
                                          : line_table_columns(rows_),
               {.own_top = true}),
        sweep_(sweep_table(wanted_)) {
    if (arguments.given("against")) {
      base_.emplace(arguments, report);
      comparison_.emplace(arguments, wanted_);
    }
    warn_of_comma();
    if (!swept_ || !arguments.output) return;
    throw Error(Failure::usage,
                "--output is " + *arguments.output + ", but a sweep makes no bundle",
                "-o FILE.csv writes its table");
  }

 private:
  // In many countries, "0,5" is 0.5.
  void warn_of_comma() {
    if (!arguments().given("scale")) return;
    const std::vector<double>& scales = arguments().numbers("scale");
    if (scales.size() != 2 || scales[0] != 0 || scales[1] != std::floor(scales[1])) return;
    report().note(fmt::format(
        "--scale has two values, 0 and {}; a decimal has a point and no comma", scales[1]));
  }

  void report_cost(const ColumnTask& task) override {
    report_column_cost(arguments(), task, report());
  }

  void conclude_costs(const GroupReport& groups) override {
    make_reporter();
    reporter_->finish(groups, report());
  }

  void make_reporter() {
    const bool several = sections().several();
    const bool text = !table_.in_place_of_text();
    reporter_.emplace(wanted_, ReportOptions{.several = several,
                                             .each = text && (!several || arguments().verbose),
                                             .all = text,
                                             .json = arguments().json.has_value()});
  }

  void begin(Index problems) override {
    if (base_) base_->require_same(arguments(), sections());
    const Index bundles = base_ ? 2 : 1;
    progress_.emplace(arguments(), "column sums", static_cast<double>(bundles * problems), "heads");
    make_reporter();
  }

  void compute(const ColumnTask& task, const std::string& label,
               std::optional<io::OutputBundle> results) override {
    const ColumnOptions& options = task.options();
    if (options.wants(stored) && task.bundle.text_attribute("attn_status") == "not_converged") {
      report().warn("the stored weights had not converged when they were made");
    }
    std::optional<VectorWriter> writer;
    if (results) writer.emplace(*std::move(results), task, report());
    ColumnStatistics names;
    names.leading = task.input.leading;
    names.keys = task.input.keys;
    if (rows_ == RowsOf::keys) read_key_names(task.bundle, task.input, names, report());
    std::vector<ColumnStatistics> statistics = gather_columns(
        arguments(), task,
        [&](const std::string& scheme, Index head, const std::vector<Index>& queries,
            const HeadColumns& columns) {
          if (writer) writer->write(scheme, head, queries, columns);
          if (rows_ != RowsOf::heads) add_lines(task, names, scheme, head, queries, columns);
        },
        checkpoint(), *progress_, report());
    warn_of_input(options.scored_schemes(), task.bundle, task.input, report());
    // The usual schemes are for comparison.
    if (arguments().given("scheme")) warn_of_leak(options.scored_schemes(), task.input, report());
    if (base_) {
      compare(task, label, statistics.front());
      return;
    }
    if (!swept_) {
      read_key_names(task.bundle, task.input, statistics.front(), report());
      summarise(task, statistics.front());
      return;
    }
    auto points = nlohmann::ordered_json::array();
    for (std::size_t n = 0; n < statistics.size(); ++n) {
      read_key_names(task.bundle, task.input, statistics[n], report());
      points.push_back(summarise_point(task.points[n], label, statistics[n]));
    }
    if (arguments().json) report().result() = {{"sweep", std::move(points)}};
  }

  ColumnSummaries summaries_of(ColumnStatistics& statistics, const std::string& name) {
    std::vector<PooledHistogram> histograms;
    ColumnSummaries summaries = summarise_columns(statistics, wanted_, histograms);
    reporter_->verdict().add(statistics, summaries, name, report());
    return summaries;
  }

  // Computes the section of BASE, too; `statistics` are of the section of INPUT.
  void compare(const ColumnTask& task, const std::string& label, ColumnStatistics& statistics) {
    const ColumnSummaries own = summaries_of(statistics, label);
    const HeadAxes axes = static_cast<const HeadAxes&>(statistics);
    read_key_names(task.bundle, task.input, statistics, report());
    const std::vector<std::string> tokens = std::move(statistics.names);
    statistics = {};  // BASE needs the memory
    const ColumnTask base = base_->task(section());
    const auto drop = [](const std::string&, Index, const std::vector<Index>&, const HeadColumns&) {
    };
    std::vector<ColumnStatistics> found =
        gather_columns(base_->arguments(), base, drop, nullptr, *progress_, report());
    warn_of_input(base.options().scored_schemes(), base.bundle, base.input, report());
    const bool alike =
        base.input.queries == task.input.queries && base.input.keys == task.input.keys;
    if (!alike && !std::exchange(lengths_differ_, true)) {
      report().warn(
          fmt::format("{} has {} queries and {} keys, {} has {} and {}: column sums and "
                      "entropies depend on these numbers",
                      task.bundle.description(), task.input.queries, task.input.keys,
                      base.bundle.description(), base.input.queries, base.input.keys));
    }
    read_key_names(base.bundle, base.input, found.front(), report());
    const std::vector<std::string>& base_tokens = found.front().names;
    const bool known = !tokens.empty() && !base_tokens.empty();
    if (alike && known && tokens != base_tokens && !std::exchange(tokens_differ_, true)) {
      report().warn(fmt::format("{} and {} have different tokens: is it the same text?",
                                task.bundle.description(), base.bundle.description()));
    }
    const ColumnSummaries others = summaries_of(found.front(), base.bundle.description());
    comparison_->add(section(), axes, task.options().schemes, others, own);
  }

  cli::Outcome conclude_comparison() {
    for (std::vector<Cell>& row : comparison_->table_rows()) table_.add(std::move(row));
    table_.print(report());
    if (!table_.in_place_of_text()) report().print(comparison_->text(sections().description()));
    report().result() = comparison_->json();
    const bool beyond = comparison_->beyond() > 0;
    cli::Outcome outcome;
    outcome.status = beyond ? 1 : reporter_->verdict().status();
    if (beyond && table_.in_place_of_text()) {
      outcome.summary =
          cli::counted(comparison_->beyond(), "change is", "changes are") + " beyond --threshold";
    }
    report().status(beyond ? "no" : reporter_->verdict().word());
    outcome.commit = table_.commit();
    return outcome;
  }

  void summarise(const ColumnTask& task, ColumnStatistics& statistics) {
    statistics.terms = terms_of(task);
    if (is_shard()) {
      keep_for_join(notes_of({section(), sections().description(), sections().several(),
                              heading_of(task), wanted_, statistics}));
    }
    if (task.input.share) {  // tensor-join makes the report on all heads
      for (const SchemeColumns& scheme : statistics.schemes) {
        stopped_ = stopped_ || !scheme.converged;
      }
      return;
    }
    const ColumnSummaries& summaries =
        reporter_->add(section(), heading_of(task), statistics, report());
    add_rows(statistics, task.options().schemes, summaries, nullptr);
  }

  nlohmann::ordered_json summarise_point(const ColumnPoint& point, const std::string& label,
                                         ColumnStatistics& statistics) {
    std::vector<PooledHistogram> histograms;
    const ColumnSummaries summaries = summarise_columns(statistics, wanted_, histograms);
    const std::vector<std::string>& schemes = point.options.schemes;
    SweepPoint at = point.at;
    at.scale = point.options.scores.scale;
    add_rows(statistics, schemes, summaries, &at);
    add_sweep_rows(label, at, schemes, wanted_, summaries, sweep_);
    reporter_->verdict().add(statistics, summaries, label, report());
    nlohmann::ordered_json json;
    if (!arguments().json) return json;
    json["scale"] = *at.scale;
    json["hybrid"] = at.hybrid ? nlohmann::ordered_json(*at.hybrid) : nullptr;
    json["result"] = column_json(statistics, wanted_, summaries);
    return json;
  }

  void add_lines(const ColumnTask& task, const ColumnStatistics& names, const std::string& scheme,
                 Index head, const std::vector<Index>& queries, const HeadColumns& columns) {
    for (std::vector<Cell>& row : line_table_rows(rows_, section(), head, names, scheme, queries,
                                                  columns, task.input.own_place(head))) {
      table_.add(std::move(row));
    }
    table_.pack(report());
  }

  void add_rows(const HeadAxes& heads, const std::vector<std::string>& schemes,
                const ColumnSummaries& summaries, const SweepPoint* at) {
    if (rows_ != RowsOf::heads) return;
    for (std::vector<Cell>& row :
         column_table_rows(section(), heads, schemes, wanted_, summaries, at)) {
      table_.add(std::move(row));
    }
  }

  cli::Outcome conclude(const GroupReport& groups) override {
    if (base_) return conclude_comparison();
    if (divides_problems()) return shard_outcome(!stopped_, ", some not converged");
    table_.print(report());
    const std::string name = sections().description();
    if (swept_ && !table_.in_place_of_text()) {
      report().print_line(name + ": every row pools the heads");
      report().print("\n" + sweep_.text());
    }
    if (!swept_) reporter_->conclude(name, report());
    reporter_->finish(groups, report());
    cli::Outcome outcome;
    outcome.status = reporter_->verdict().status();
    outcome.commit = table_.commit();
    return outcome;
  }

  const ColumnSummaryOptions wanted_;
  const bool swept_;
  const RowsOf rows_;
  TableOutput table_;
  Table sweep_;
  std::optional<ColumnBase> base_;                       // with --against
  std::optional<ColumnComparison> comparison_;           // with --against
  bool lengths_differ_ = false, tokens_differ_ = false;  // warned once
  std::optional<cli::Progress> progress_;
  std::optional<ColumnReporter> reporter_;
  bool stopped_ = false;  // some head of a shard did not converge
};

// Results and shards hold all heads.
void require_heads_effect(const cli::Arguments& arguments) {
  if (!arguments.given("heads")) return;
  if (shard_of(arguments)) {
    throw Error(Failure::usage, "--heads has no effect on a shard, which computes all heads",
                "run it without --shard");
  }
  if (!arguments.output) return;
  throw Error(
      Failure::usage,
      "--output is " + *arguments.output + ", but --heads only chooses heads of a report",
      "-o FILE.csv writes their table; slices choose heads of datasets: -i 'q=FILE:/q[:4]'");
}

cli::Outcome run(const cli::Arguments& arguments, cli::Report& report) {
  require_heads_effect(arguments);
  if (shard_of(arguments) && sweep_points(arguments).size() > 1) {
    throw Error(Failure::usage, "a sweep over --scale or --hybrid is not divided among shards",
                "one value of each with --shard, or -o FILE.csv without it");
  }
  require_rows(arguments, sweep_points(arguments).size() > 1);
  require_against(arguments);
  require_no_table_of_shard(arguments);
  return ColumnTool(arguments, report).run();
}

}  // namespace

const ToolDefinition explain_away_stats = {declare, run, numeric_libraries};

}  // namespace attn::tools
