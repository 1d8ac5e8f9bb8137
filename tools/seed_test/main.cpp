// seed-test: compares runs that differ in their seeds.

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "attnkit/error.hpp"
#include "cli/values.hpp"
#include "cli/words.hpp"
#include "common/frame/bundles.hpp"
#include "common/options/dataset_words.hpp"
#include "common/tables/table_options.hpp"
#include "seed_test/run_group.hpp"
#include "seed_test/seed_comparison.hpp"
#include "seed_test/seed_report.hpp"

namespace attn::tools {
namespace {

using Range = cli::Declaration::Range;

constexpr const char* separator = "against";

void describe(cli::Declaration& d) {
  d.about(
      "A and B are groups of runs, with different seeds within a group: logs of attn-train, or "
      "the results themselves as numbers. Without B and --reference, the tool prints mean and "
      "deviations only.");
  d.about(
      "p is the probability of a difference at least as large if there is no true difference. A "
      "table that prints mean +- deviation seldom says whether that is the deviation of the "
      "population, divided by n, or of the sample, divided by n - 1, and p depends on it; both "
      "readings are therefore printed. For runs, +- is the deviation of the population, and this "
      "reading tests the runs themselves; the other is the result for a reader who takes +- as the "
      "deviation of the sample.");
  d.formula("Welch, for lower: t = (mean_B - mean_A)/sqrt(v_A + v_B), v = s^2/n,")
      .formula("  degrees = (v_A + v_B)^2/(v_A^2/(n_A - 1) + v_B^2/(n_B - 1))")
      .formula("one-sample, for lower: t = (reference - mean_A)/sqrt(v_A), degrees = n_A - 1")
      .formula("paired: one-sample of A - B with the reference 0")
      .formula("s: the deviation of the sample, sqrt(n/(n - 1)) times the population's")
      .formula("p = P(T >= t), T of Student's distribution; for higher, -t in place of t");
}

void declare_options(cli::Declaration& d) {
  d.section("Runs");
  d.text("metric", "LIST",
         "The metric of logs to compare, by its name in a line; several names are separated by "
         "commas. Names of nested objects have dots, as in valid.perplexity.");
  d.choice("at", {"last", "best"},
           "The value of a run: at its last step, or the best one of all steps.", "last");
  d.section("Printed tables");
  d.numbers("means", "A[,B]", "Printed means, in place of runs.", Range::any());
  d.numbers("deviations", "A[,B]", "What the table prints after +-.", Range::non_negative());
  d.integers("counts", "A[,B]", "The numbers of runs; one number for both.", 1, Index{1} << 40);
  d.section("Test");
  d.choice("better", {"lower", "higher"},
           "In which direction A would be better. Tests and --at best need it.");
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
      .column("count_a, mean_a, deviation_a",
              "the number of runs of A, their mean, and the number after +-")
      .column("sample_deviation_a", "the deviation of the sample, of runs")
      .column("count_b, mean_b, deviation_b, sample_deviation_b", "the same of B")
      .column("reference", "the number that A is tested against")
      .column("difference", "the mean of A less the mean of B, or less the reference")
      .column("test, better", "the test, and the direction in which A would be better")
      .column("t_population, degrees_population, p_population",
              "the test, with +- read as the deviation of the population")
      .column("t_sample, degrees_sample, p_sample",
              "the test, with +- read as the deviation of the sample");
  d.report_member("comparisons",
                  "an array of metric, a and b {runs, seeds, values, count, mean, deviation, "
                  "population_deviation, sample_deviation}, reference, difference, differences "
                  "(of a paired test, like a), test, better, population and sample {t, degrees, p} "
                  "for each metric");
  d.reference(
       "B. L. Welch: The generalization of 'Student's' problem when several different "
       "population variances are involved. Biometrika 34, 1947.")
      .reference(scale_invariant_reference);
  d.example("seed-test si-*.jsonl against sgd-*.jsonl --metric valid.loss --better lower",
            "Compare the runs of two optimizers.");
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
          "Runs: logs of attn-train, or numbers (after -- if one is negative).", 0, -1);
  describe(d);
  declare_options(d);
  describe_results(d);
  return d;
}

[[noreturn]] void usage(const std::string& message, const std::string& hint = {}) {
  throw Error(Failure::usage, message, hint);
}

void refuse(const cli::Arguments& arguments, const std::vector<std::string>& options,
            const std::string& why) {
  for (const std::string& option : options) {
    if (arguments.given(option)) usage(fmt::format("--{} has no effect {}", option, why));
  }
}

// A, and B if there is one.
using Sides = std::vector<std::vector<std::string>>;

Sides sides_of(const std::vector<std::string>& words) {
  if (words.empty()) {
    usage("no runs are given",
          "seed-test A... against B..., or --means, --deviations and --counts");
  }
  Sides sides(1);
  for (const std::string& word : words) {
    if (word == separator) {
      sides.emplace_back();
    } else {
      sides.back().push_back(word);
    }
  }
  if (sides.size() > 2) usage("expected one word against, got several");
  for (const auto& side : sides) {
    if (side.empty())
      usage(fmt::format("no runs {} against", &side == &sides[0] ? "before" : "after"));
  }
  return sides;
}

std::vector<SeedComparison> printed(const cli::Arguments& arguments) {
  refuse(arguments, {"metric", "at"}, "with --means");
  if (!arguments.words().empty()) {
    usage("both runs and --means are given, expected one", "--reference X is a known number");
  }
  const std::vector<double> means = arguments.numbers("means");
  const std::vector<double> deviations = arguments.numbers("deviations");
  const std::vector<Index> counts = arguments.integers("counts");
  const std::size_t size = means.size();
  if (size > 2) usage(fmt::format("--means has {} numbers, expected 1 or 2", size));
  if (deviations.size() != size) {
    usage(fmt::format("--deviations has {}, --means has {}",
                      cli::counted(deviations.size(), "number"), size));
  }
  if (counts.size() != size && counts.size() != 1) {
    usage(fmt::format("--counts has {}, --means has {}", cli::counted(counts.size(), "number"),
                      size));
  }
  SeedComparison comparison;
  comparison.a = printed_group(means[0], deviations[0], counts.front());
  if (size == 2) comparison.b = printed_group(means[1], deviations[1], counts.back());
  return {comparison};
}

Chosen chosen_of(const cli::Arguments& arguments) {
  if (arguments.text("at") == "last") return Chosen::last;
  if (!arguments.given("better")) usage("--at best needs --better lower or --better higher");
  return arguments.text("better") == "lower" ? Chosen::least : Chosen::largest;
}

std::vector<SeedComparison> of_runs(const cli::Arguments& arguments, const Sides& sides) {
  refuse(arguments, {"deviations", "counts"}, "without --means");
  const Chosen chosen = chosen_of(arguments);
  std::vector<RunWords> groups;
  for (const auto& side : sides) groups.emplace_back(side);
  const bool any_logs = std::any_of(groups.begin(), groups.end(),
                                    [](const RunWords& group) { return group.are_logs(); });
  if (any_logs && !arguments.given("metric")) {
    usage("--metric is missing: what to compare of the logs", "--metric valid.loss");
  }
  if (!any_logs) refuse(arguments, {"metric", "at"}, "on numbers");
  std::vector<SeedComparison> comparisons;
  for (const std::string& metric : cli::split(arguments.text("metric"), ',')) {
    SeedComparison comparison;
    comparison.metric = metric;
    comparison.a = groups[0].group(metric, chosen);
    if (groups.size() == 2) comparison.b = groups[1].group(metric, chosen);
    comparisons.push_back(std::move(comparison));
  }
  return comparisons;
}

// Which test the options ask for.
SeedTest test_of(const cli::Arguments& arguments, bool two_groups) {
  const std::optional<double> reference = arguments.number("reference");
  if (two_groups && reference) usage("both B and --reference are given, expected one");
  const std::string test = arguments.text("test");
  if (!two_groups && !reference) {
    refuse(arguments, {"test"}, "without B and --reference");
    return SeedTest::none;
  }
  if (!arguments.given("better")) {
    usage("--better is missing: lower or higher",
          "the test asks whether A is better than B, in one direction");
  }
  if (!two_groups) {
    if (!test.empty() && test != "one-sample") usage("--test " + test + " needs B");
    return SeedTest::one_sample;
  }
  if (test == "paired" && arguments.given("means")) usage("--test paired needs runs, not --means");
  if (test == "one-sample") return SeedTest::one_sample;
  return test == "paired" ? SeedTest::paired : SeedTest::welch;
}

cli::Outcome run(const cli::Arguments& arguments, cli::Report& report) {
  TableOutput table(arguments, columns_of(seed_figures()), {.writes_bundle = false});
  const bool is_printed = arguments.given("means");
  const Sides sides = is_printed ? Sides() : sides_of(arguments.words());
  const std::size_t groups = is_printed ? arguments.numbers("means").size() : sides.size();
  const SeedTest asked = test_of(arguments, groups > 1);
  std::vector<SeedComparison> comparisons =
      is_printed ? printed(arguments) : of_runs(arguments, sides);
  report.result()["comparisons"] = nlohmann::ordered_json::array();
  for (SeedComparison& comparison : comparisons) {
    comparison.test = asked;
    comparison.better = arguments.text("better") == "higher" ? Better::higher : Better::lower;
    comparison.reference = arguments.number("reference");
    if (asked == SeedTest::one_sample && comparison.b) {
      comparison.reference = comparison.b->sample.mean;
    }
    test(comparison);
    table.add(cells_of(seed_figures(), comparison));
    report.result()["comparisons"].push_back(seed_json(comparison));
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
