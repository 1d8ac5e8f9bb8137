// seed-test: compares runs that differ in their seeds.

#include <algorithm>
#include <cctype>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "common/options/dataset_words.hpp"
#include "common/process/tool_main.hpp"
#include "common/tables/table_options.hpp"
#include "seed_test/asked_comparisons.hpp"
#include "seed_test/seed_comparison.hpp"
#include "seed_test/seed_report.hpp"

namespace attn::tools {
namespace {

using Range = cli::Declaration::Range;

void describe(cli::Declaration& d) {
  d.about(
      "A and B are groups of runs, with different seeds within a group: logs, or the results "
      "themselves as numbers. A log is written by attn-train, or has lines of JSON, or is a CSV or "
      "TSV with a header line and a line for each evaluation, whose name ends in .csv or .tsv. "
      "With --table, one CSV or TSV has a line for each run, and A and B are words in its column "
      "--by. Without B and --reference, the tool prints means and deviations only.");
  d.about(
      "p is the probability of a difference at least as large, in the direction of --better, if "
      "there is no true difference. The interval of the difference has a confidence of 95 %, on "
      "both sides, from the same test. A difference is seen if the interval does not contain 0.");
  d.about(
      "A table that prints mean +- deviation seldom says whether that is the deviation of the "
      "sample, divided by n - 1, or of the population, divided by n, and p depends on it: "
      "--deviation-of says how --deviations are read. JSON and --tsv have p in both readings.");
  d.formula("Welch, for lower: t = (mean_B - mean_A)/sqrt(v_A + v_B), v = s^2/n,")
      .formula("  degrees = (v_A + v_B)^2/(v_A^2/(n_A - 1) + v_B^2/(n_B - 1))")
      .formula("one-sample, for lower: t = (reference - mean_A)/sqrt(v_A), degrees = n_A - 1")
      .formula("paired: one-sample of A - B with the reference 0")
      .formula("s: the deviation of the sample, sqrt(n/(n - 1)) times the population's")
      .formula("p = P(T >= t), T of Student's distribution; for higher, -t in place of t")
      .formula("interval: difference +- t_0.975 e, e = sqrt(v_A + v_B) or sqrt(v_A)")
      .formula("detectable difference: (t_0.975 + t_0.8) e");
}

void declare_options(cli::Declaration& d) {
  d.section("Runs");
  d.text("metric", "LIST",
         "The metric of logs or tables to compare, by its name in a line or column; several names "
         "are separated by commas. Names of nested objects have dots, as in valid.perplexity.");
  d.choice("at", {"last", "best"},
           "The value of a run: at its last step, or the best one of all steps.", "last");
  d.text("table", "FILE",
         "A CSV or TSV with a header line and a line for each run. A column seed has their seeds.");
  d.text("by", "COLUMN", "The column of --table that has the words A and B.")
      .default_words("the first column");
  d.text("names", "A[,B]", "What the groups are called.")
      .default_words("what the names of their files have in common; with --table, their words");
  d.section("Printed tables");
  d.numbers("means", "A[,B]", "Printed means, in place of runs.", Range::any());
  d.numbers("deviations", "A[,B]", "What the table prints after +-.", Range::non_negative());
  d.integers("counts", "A[,B]", "The numbers of runs; one number for both.", 1, Index{1} << 40);
  d.choice("deviation-of", {"sample", "population"},
           "What +- is: the deviation of the sample, or of the population. For --deviations, how "
           "they are read; for runs, which one is shown.",
           "sample");
  d.section("Test");
  d.text("better", "LIST",
         "In which direction A would be better, lower or higher: one word for all metrics, or "
         "METRIC=WORD for each, separated by commas. Tests and --at best need it.");
  d.choice("test", {"welch", "one-sample", "paired"},
           "welch: both groups have deviations, which may differ. one-sample: the mean of B is "
           "taken as a known number. paired: differences of A and B between runs with the same "
           "seed or, without seeds, at the same position.")
      .default_words("welch; with --reference, one-sample");
  d.number("reference", "X", "A known number, in place of B.", Range::any());
}

void describe_results(cli::Declaration& d) {
  declare_table_options(d, "metric", {.writes_bundle = false});
  d.column("metric", "as given")
      .column("name_a", "what A is called")
      .column(
          "count_a, mean_a, deviation_a",
          "the number of runs of A, their mean, and the number after +- in a printed table; for "
          "runs, the deviation of the population")
      .column("sample_deviation_a", "the deviation of the sample, of runs")
      .column("name_b, count_b, mean_b, deviation_b, sample_deviation_b", "the same of B")
      .column("reference", "the number that A is tested against")
      .column("difference", "the mean of A less the mean of B, or less the reference")
      .column("interval_low, interval_high", "the 95 % interval of the difference")
      .column("t, degrees, p", "the test of the runs, or of printed numbers by --deviation-of")
      .column("detectable_difference",
              "the true difference that would be seen in four of five such comparisons")
      .column("test, better", "the test, and the direction in which A would be better")
      .column("t_population, degrees_population, p_population",
              "the test, with deviation_a and deviation_b read as those of the population")
      .column("t_sample, degrees_sample, p_sample",
              "the test, with deviation_a and deviation_b read as those of the sample");
  d.report_member("comparisons",
                  "an array of metric, a and b {name, runs, seeds, values, count, mean, deviation, "
                  "population_deviation, sample_deviation}, reference, difference, differences "
                  "(of a paired test, like a), test, better, t, degrees, p, interval {confidence, "
                  "low, high}, detectable_difference, finding (a sentence), population and "
                  "sample {t, degrees, p} for each metric");
  d.reference(
       "B. L. Welch: The generalization of 'Student's' problem when several different "
       "population variances are involved. Biometrika 34, 1947.")
      .reference(scale_invariant_reference);
  d.example("seed-test si-*.jsonl against sgd-*.jsonl --metric valid.loss --better lower",
            "Compare the runs of two optimizers.");
  d.example("seed-test --table runs.csv dnas against unas --metric loss --better lower",
            "Compare two groups of rows of a table.");
  d.example("seed-test --means 121.85,123.23 --deviations .46,.36 --counts 4 --better lower",
            "Recompute the p of a printed table.");
  d.exit_status(1, "");
  d.exit_status(4, "the deviation is 0, so no test is possible");
  d.exit_status(6, "");
}

cli::Declaration declare() {
  cli::Declaration d("seed-test", "Tests whether runs with several seeds are better than others",
                     cli::Role::compare);
  d.words("A... [against B...]",
          "Runs: logs, or numbers (after -- if one is negative); with --table, words.", 0, -1);
  describe(d);
  declare_options(d);
  describe_results(d);
  return d;
}

bool could_be_paired(const SeedComparison& comparison) {
  if (comparison.test != SeedTest::welch) return false;
  std::vector<Index> a = comparison.a.seeds;
  std::vector<Index> b = comparison.b->seeds;
  std::sort(a.begin(), a.end());
  std::sort(b.begin(), b.end());
  return !a.empty() && a == b;
}

// In which direction a metric is better, if a word of its name says so: valid.accuracy.
std::optional<Better> usual_direction(const std::string& metric) {
  const std::set<std::string> higher = {"accuracy", "acc",       "auc",    "bleu", "f1",
                                        "mcc",      "precision", "recall", "rouge"};
  const std::set<std::string> lower = {"aer", "cer", "err", "error",      "loss", "mae",
                                       "mse", "nll", "ppl", "perplexity", "rmse", "wer"};
  std::optional<Better> found;
  std::string word;
  for (const char c : metric + ".") {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) {
      word += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
      continue;
    }
    // As in neg_loss, a loss with its sign changed.
    if (word == "neg" || word == "negative" || word == "minus") return std::nullopt;
    if (higher.count(word) > 0) found = Better::higher;
    if (lower.count(word) > 0) found = Better::lower;
    word.clear();
  }
  return found;
}

void warn_of_direction(const SeedComparison& comparison, cli::Report& report) {
  const std::optional<Better> usual = usual_direction(comparison.metric);
  if (comparison.test == SeedTest::none || !usual || *usual == comparison.better) return;
  const bool is_higher = *usual == Better::higher;
  report.warn(fmt::format(
      "{} is usually better if it is {}, and p is of the other direction: "
      "--better {}",
      comparison.metric, is_higher ? "higher" : "lower", is_higher ? "higher" : "lower"));
}

cli::Outcome run(const cli::Arguments& arguments, cli::Report& report) {
  TableOutput table(arguments, columns_of(seed_figures()), {.writes_bundle = false});
  std::vector<SeedComparison> comparisons = asked_comparisons(arguments);
  report.result()["comparisons"] = nlohmann::ordered_json::array();
  for (SeedComparison& comparison : comparisons) {
    test(comparison);
    warn_of_direction(comparison, report);
    table.add(cells_of(seed_figures(), comparison));
    report.result()["comparisons"].push_back(seed_json(comparison));
  }
  if (std::any_of(comparisons.begin(), comparisons.end(), could_be_paired)) {
    report.note("both groups have the same seeds: --test paired compares them seed by seed");
  }
  table.print(report);
  if (!table.in_place_of_text()) {
    for (const SeedComparison& comparison : comparisons) {
      report.print((&comparison == &comparisons[0] ? "" : "\n") + seed_text(comparison));
    }
  }
  return {0, "", table.commit()};
}

}  // namespace
}  // namespace attn::tools

int main(int argc, char** argv) {
  return attn::tools::tool_main(argc, argv, attn::tools::declare(), attn::tools::run);
}
