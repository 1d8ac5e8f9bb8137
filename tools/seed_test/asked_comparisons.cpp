#include "seed_test/asked_comparisons.hpp"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "attnkit/error.hpp"
#include "cli/values.hpp"
#include "cli/words.hpp"
#include "seed_test/group_names.hpp"
#include "seed_test/run_group.hpp"
#include "seed_test/run_table.hpp"

namespace attn::tools {
namespace {

constexpr const char* separator = "against";

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
  for (const std::string& word : words) {
    if (word != "vs" && word != "vs." && word != "versus") continue;
    std::error_code none;
    if (!std::filesystem::exists(word, none)) {
      usage("unexpected word " + word, "seed-test A... against B...");
    }
  }
  if (sides.size() > 2) usage("expected one word against, got several");
  for (const auto& side : sides) {
    if (side.empty())
      usage(fmt::format("no runs {} against", &side == &sides[0] ? "before" : "after"));
  }
  return sides;
}

std::vector<std::string> list_of(const cli::Arguments& arguments, const std::string& option) {
  return cli::split(arguments.text(option), ',');
}

// What the groups are called: as the user says, else these names.
std::vector<std::string> named(const cli::Arguments& arguments, std::vector<std::string> names) {
  if (!arguments.given("names")) return names;
  std::vector<std::string> given = list_of(arguments, "names");
  if (given.size() != names.size()) {
    usage(fmt::format("--names has {}, expected {}", cli::counted(given.size(), "name"),
                      names.size()));
  }
  if (std::count(given.begin(), given.end(), "") > 0 ||
      (given.size() == 2 && given[0] == given[1])) {
    usage(fmt::format("--names is {}, expected two different names", arguments.text("names")));
  }
  return given;
}

std::vector<SeedComparison> printed(const cli::Arguments& arguments) {
  refuse(arguments, {"metric", "at", "table", "by"}, "with --means");
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
  std::vector<std::string> letters = {"A", "B"};
  letters.resize(size);
  const std::vector<std::string> names = named(arguments, letters);
  SeedComparison comparison;
  comparison.a = printed_group(names[0], means[0], deviations[0], counts.front());
  if (size == 2) {
    comparison.b = printed_group(names[1], means[1], deviations[1], counts.back());
  }
  return {comparison};
}

Better better_of(const std::string& word) {
  if (word != "lower" && word != "higher") {
    usage(fmt::format("--better has {}, expected lower or higher", word),
          "--better lower, or --better loss=lower,accuracy=higher");
  }
  return word == "lower" ? Better::lower : Better::higher;
}

// The direction for each metric; absent without --better.
std::optional<Better> better_for(const cli::Arguments& arguments, const std::string& metric) {
  if (!arguments.given("better")) return std::nullopt;
  const std::string whole = arguments.text("better");
  if (whole.find('=') == std::string::npos) return better_of(whole);
  const std::vector<std::string> metrics = list_of(arguments, "metric");
  std::optional<Better> found;
  for (const std::string& entry : list_of(arguments, "better")) {
    const std::size_t sign = std::min(entry.rfind('='), entry.size());
    const std::string name = entry.substr(0, sign);
    if (std::find(metrics.begin(), metrics.end(), name) == metrics.end()) {
      usage(fmt::format("--better has {}, which is not among the metrics",
                        entry.empty() ? "an empty entry" : name),
            fmt::format("--metric {}", arguments.text("metric")));
    }
    const Better better = better_of(entry.substr(std::min(sign + 1, entry.size())));
    if (name != metric) continue;
    if (found) usage(fmt::format("--better has {} twice", name));
    found = better;
  }
  if (!found) usage(fmt::format("--better does not say which {} is better", metric));
  return found;
}

Chosen chosen_of(const cli::Arguments& arguments, const std::string& metric) {
  if (arguments.text("at") == "last") return Chosen::last;
  const std::optional<Better> better = better_for(arguments, metric);
  if (!better) usage("--at best needs --better lower or --better higher");
  return *better == Better::lower ? Chosen::least : Chosen::largest;
}

// Groups of runs, and what they are called.
struct NamedRuns {
  std::vector<std::string> names;
  std::vector<Runs> runs;
};

// The rows of a table whose column has one of the words of a side.
NamedRuns rows_of(const cli::Arguments& arguments, const Sides& sides) {
  const RunTable table = read_run_table(arguments.text("table"));
  const std::string by = arguments.given("by") ? arguments.text("by") : table.columns.front();
  const std::size_t column = table.column(by);
  for (const std::string& metric : list_of(arguments, "metric")) table.column(metric);
  if (sides.size() == 2) {
    for (const std::string& word : sides[0]) {
      if (std::find(sides[1].begin(), sides[1].end(), word) == sides[1].end()) continue;
      usage(fmt::format("{} is compared with itself", word));
    }
  }
  NamedRuns found;
  for (const std::vector<std::string>& side : sides) {
    std::vector<LoggedRun> logs;
    for (const std::string& word : side) {
      const std::size_t before = logs.size();
      for (const RunTable::Row& row : table.rows) {
        if (row.cells[column] == word) logs.emplace_back(table, row);
      }
      if (logs.size() > before) continue;
      std::set<std::string> words;
      for (const RunTable::Row& row : table.rows) words.insert(row.cells[column]);
      throw Error(Failure::input,
                  fmt::format("{}: no row has {} in the column {}", table.file, word, by),
                  fmt::format("it has {}", fmt::join(words, ", ")));
    }
    found.names.push_back(fmt::format("{}", fmt::join(side, "+")));
    found.runs.emplace_back(std::move(logs));
  }
  return found;
}

NamedRuns runs_of(const cli::Arguments& arguments, const Sides& sides) {
  if (arguments.given("table")) return rows_of(arguments, sides);
  refuse(arguments, {"by"}, "without --table");
  NamedRuns found;
  for (const auto& side : sides) found.runs.emplace_back(side);
  found.names = {"A", "B"};
  found.names.resize(sides.size());
  const bool all_logs = std::all_of(found.runs.begin(), found.runs.end(),
                                    [](const Runs& runs) { return runs.are_logs(); });
  if (all_logs) found.names = names_of_groups(sides);
  return found;
}

[[noreturn]] void require_metric(const std::string& place) {
  usage("--metric is missing: what to compare of " + place, "--metric valid.loss");
}

std::vector<SeedComparison> of_runs(const cli::Arguments& arguments, const Sides& sides) {
  refuse(arguments, {"deviations", "counts"}, "without --means");
  if (arguments.given("table") && !arguments.given("metric")) require_metric("the table");
  const std::vector<std::string> metrics = list_of(arguments, "metric");
  std::vector<Chosen> chosen;
  for (const std::string& metric : metrics) chosen.push_back(chosen_of(arguments, metric));
  NamedRuns groups = runs_of(arguments, sides);
  const bool any_logs = std::any_of(groups.runs.begin(), groups.runs.end(),
                                    [](const Runs& group) { return group.are_logs(); });
  if (any_logs && !arguments.given("metric")) require_metric("the logs");
  if (!any_logs) refuse(arguments, {"metric", "at"}, "on numbers");
  groups.names = named(arguments, groups.names);
  std::vector<SeedComparison> comparisons;
  for (std::size_t n = 0; n < metrics.size(); ++n) {
    const auto group = [&](std::size_t side) {
      return groups.runs[side].group(groups.names[side], metrics[n], chosen[n]);
    };
    SeedComparison comparison;
    comparison.metric = metrics[n];
    comparison.a = group(0);
    if (groups.runs.size() == 2) comparison.b = group(1);
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
    if (arguments.given("better") && arguments.text("at") != "best") {
      usage("--better has no effect without B and --reference",
            "the word against stands before the runs of B: A... against B...");
    }
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

}  // namespace

std::vector<SeedComparison> asked_comparisons(const cli::Arguments& arguments) {
  const bool is_printed = arguments.given("means");
  const Sides sides = is_printed ? Sides() : sides_of(arguments.words());
  const std::size_t groups = is_printed ? arguments.numbers("means").size() : sides.size();
  const SeedTest asked = test_of(arguments, groups > 1);
  std::vector<SeedComparison> comparisons =
      is_printed ? printed(arguments) : of_runs(arguments, sides);
  for (SeedComparison& comparison : comparisons) {
    comparison.test = asked;
    comparison.better = better_for(arguments, comparison.metric).value_or(Better::lower);
    comparison.reading =
        arguments.text("deviation-of") == "sample" ? Reading::sample : Reading::population;
    comparison.reference = arguments.number("reference");
    if (asked == SeedTest::one_sample && comparison.b) {
      comparison.reference = comparison.b->sample.mean;
    }
  }
  return comparisons;
}

}  // namespace attn::tools
