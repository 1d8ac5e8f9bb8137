#include "seed_test/seed_report.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/words.hpp"

namespace attn::tools {
namespace {

using Json = nlohmann::ordered_json;

std::string word(SeedTest test) {
  switch (test) {
    case SeedTest::welch:
      return "welch";
    case SeedTest::one_sample:
      return "one-sample";
    case SeedTest::paired:
      return "paired";
    case SeedTest::none:
      break;
  }
  return "";
}

std::string word(Better better) { return better == Better::lower ? "lower" : "higher"; }

std::string digits(double value, int count) {
  return std::isnan(value) ? "-" : fmt::format("{:.{}g}", value, count);
}

// The number after ±: what was printed, or the deviation of runs that is to be shown.
double shown_deviation(const RunGroup& group, Reading reading) {
  if (group.values.empty()) return group.deviation;
  const train::Sample& sample = group.sample;
  return reading == Reading::sample ? sample.sample_deviation : sample.population_deviation;
}

// `text`, filled up with blanks on the right.
std::string padded(const std::string& text, std::size_t width) {
  return text + std::string(width - std::min(width, cli::width(text)), ' ');
}

std::string groups_table(const SeedComparison& comparison) {
  std::vector<const RunGroup*> groups = {&comparison.a};
  if (comparison.b) groups.push_back(&*comparison.b);
  if (comparison.differences) groups.push_back(&*comparison.differences);
  std::size_t width = 7;
  for (const RunGroup* group : groups)
    width = std::max(width, cli::width(cli::one_line(group->name)));
  std::string text = padded("", width) + fmt::format("{:>11}{:>11}{:>7}\n", "mean", "±", "runs");
  for (const RunGroup* group : groups) {
    text +=
        padded(cli::one_line(group->name), width) +
        fmt::format("{:>11}{:>11}{:>7}\n", digits(group->sample.mean, 6),
                    digits(shown_deviation(*group, comparison.reading), 4), group->sample.count);
  }
  return text + fmt::format("± is the deviation of the {}, divided by {}.\n",
                            comparison.reading == Reading::sample ? "sample" : "population",
                            comparison.reading == Reading::sample ? "n - 1" : "n");
}

// What A is compared with.
std::string other_name(const SeedComparison& comparison) {
  return comparison.b ? comparison.b->name : digits(*comparison.reference, 6);
}

std::string test_line(const SeedComparison& comparison) {
  const std::string name = comparison.test == SeedTest::welch    ? "Welch's test"
                           : comparison.test == SeedTest::paired ? "Student's test, run by run"
                                                                 : "Student's test";
  const train::TTest& test = comparison.result->test;
  return fmt::format("{}: t = {}, {} {} of freedom, p = {} (one-sided: is {} {}?)\n", name,
                     digits(test.t, 4), digits(test.degrees, 4),
                     test.degrees == 1 ? "degree" : "degrees", digits(test.p, 4),
                     cli::one_line(comparison.a.name), word(comparison.better));
}

// "5 and 5 seeds".
std::string counts(const SeedComparison& comparison) {
  if (comparison.differences) return cli::counted(comparison.differences->sample.count, "pair");
  const RunGroup& a = comparison.a;
  const std::string noun = a.seeds.empty() ? "run" : "seed";
  if (comparison.test != SeedTest::welch) return cli::counted(a.sample.count, noun);
  return fmt::format("{} and {}", a.sample.count, cli::counted(comparison.b->sample.count, noun));
}

// The finding in words; see seed_report.hpp.
std::string finding(const SeedComparison& comparison) {
  const TestResult& result = *comparison.result;
  const double gap = difference(comparison).value();
  const bool is_lower = gap < 0;
  // The interval of the amount by which A is lower or higher.
  const double low = is_lower ? -result.interval.high : result.interval.low;
  const double high = is_lower ? -result.interval.low : result.interval.high;
  const std::string numbers =
      fmt::format("{} {} (95% interval {} to {}, one-sided p = {}, {})", digits(std::abs(gap), 3),
                  is_lower ? "less" : "more", digits(low, 3), digits(high, 3),
                  digits(result.test.p, 2), counts(comparison));
  const std::string& a = comparison.a.name;
  const std::string b = other_name(comparison);
  const std::string& metric = comparison.metric;
  const std::string direction = is_lower ? "lower" : "higher";
  const std::string article_and_metric =
      metric.empty() ? direction : fmt::format("a {} {}", direction, metric);
  const bool is_seen = low > 0;
  const bool is_better = is_lower == (comparison.better == Better::lower);
  if (is_seen) {
    return fmt::format("{} {} {} than {}: {}{}.", a, metric.empty() ? "is" : "has",
                       article_and_metric, b, numbers, is_better ? "" : ", which is worse");
  }
  const std::string detectable =
      fmt::format("In four of five such comparisons, a true difference of {} would be seen.",
                  digits(result.detectable, 2));
  if (result.test.p < 0.05) {
    return fmt::format("{} may {} {} than {}, but the interval contains 0: {}. {}", a,
                       metric.empty() ? "be" : "have", article_and_metric, b, numbers, detectable);
  }
  return fmt::format("No difference{} was seen between {} and {}: {}. {}",
                     metric.empty() ? "" : " of " + metric, a, b, numbers, detectable);
}

Json json(const RunGroup& group) {
  Json entry;
  entry["name"] = group.name;
  if (!group.runs.empty()) entry["runs"] = group.runs;
  if (!group.seeds.empty()) entry["seeds"] = group.seeds;
  if (!group.values.empty()) entry["values"] = group.values;
  entry["count"] = group.sample.count;
  entry["mean"] = group.sample.mean;
  entry["deviation"] = group.deviation;
  entry["population_deviation"] = group.sample.population_deviation;
  entry["sample_deviation"] = group.sample.sample_deviation;
  return entry;
}

Json json(const train::TTest& test) {
  return {{"t", test.t}, {"degrees", test.degrees}, {"p", test.p}};
}

}  // namespace

std::string seed_text(const SeedComparison& comparison) {
  std::string text = comparison.metric.empty() ? "" : cli::one_line(comparison.metric) + "\n";
  text += groups_table(comparison);
  if (!comparison.result) return text;
  return text + test_line(comparison) + "\n" + cli::one_line(finding(comparison)) + "\n";
}

const Figures<SeedComparison>& seed_figures() {
  using Of = const SeedComparison&;
  const auto name = [](const RunGroup& group) { return Cell(group.name); };
  const auto count = [](const RunGroup& group) { return Cell(group.sample.count); };
  const auto mean = [](const RunGroup& group) { return Cell(group.sample.mean); };
  const auto deviation = [](const RunGroup& group) { return Cell(group.deviation); };
  // NaN stands for an unknown deviation, of a printed mean or of a single run.
  const auto of_sample = [](const RunGroup& group) { return Cell(group.sample.sample_deviation); };
  const auto a = [](auto value) { return [value](Of of) { return value(of.a); }; };
  const auto b = [](auto value) { return [value](Of of) { return of.b ? value(*of.b) : Cell(); }; };
  const auto tested = [](auto value) {
    return [value](Of of) { return of.result ? Cell(value(of)) : Cell(); };
  };
  static const Figures<SeedComparison> all = {
      {"metric", [](Of of) { return of.metric.empty() ? Cell() : Cell(of.metric); }},
      {"name_a", a(name)},
      {"count_a", a(count)},
      {"mean_a", a(mean)},
      {"deviation_a", a(deviation), false},
      {"sample_deviation_a", a(of_sample)},
      {"name_b", b(name)},
      {"count_b", b(count)},
      {"mean_b", b(mean)},
      {"deviation_b", b(deviation), false},
      {"sample_deviation_b", b(of_sample)},
      {"reference", [](Of of) { return cell(of.reference); }},
      {"difference", [](Of of) { return cell(difference(of)); }},
      {"interval_low", tested([](Of of) { return of.result->interval.low; })},
      {"interval_high", tested([](Of of) { return of.result->interval.high; })},
      {"t", tested([](Of of) { return of.result->test.t; }), false},
      {"degrees", tested([](Of of) { return of.result->test.degrees; }), false},
      {"p", tested([](Of of) { return of.result->test.p; })},
      {"detectable_difference", tested([](Of of) { return of.result->detectable; }), false},
      {"test", tested([](Of of) { return word(of.test); }), false},
      {"better", tested([](Of of) { return word(of.better); }), false},
      {"t_population", tested([](Of of) { return of.result->population.t; }), false},
      {"degrees_population", tested([](Of of) { return of.result->population.degrees; }), false},
      {"p_population", tested([](Of of) { return of.result->population.p; }), false},
      {"t_sample", tested([](Of of) { return of.result->sample.t; }), false},
      {"degrees_sample", tested([](Of of) { return of.result->sample.degrees; }), false},
      {"p_sample", tested([](Of of) { return of.result->sample.p; }), false}};
  return all;
}

Json seed_json(const SeedComparison& comparison) {
  Json entry;
  add_members(seed_figures(), comparison, {"metric"}, entry);
  entry["a"] = json(comparison.a);
  if (comparison.b) entry["b"] = json(*comparison.b);
  if (comparison.reference) entry["reference"] = *comparison.reference;
  if (const auto gap = difference(comparison)) entry["difference"] = *gap;
  if (comparison.differences) entry["differences"] = json(*comparison.differences);
  if (!comparison.result) return entry;
  add_members(seed_figures(), comparison, {"test", "better", "t", "degrees", "p"}, entry);
  entry["interval"] = {{"confidence", confidence},
                       {"low", comparison.result->interval.low},
                       {"high", comparison.result->interval.high}};
  add_members(seed_figures(), comparison, {"detectable_difference"}, entry);
  entry["finding"] = finding(comparison);
  entry["population"] = json(comparison.result->population);
  entry["sample"] = json(comparison.result->sample);
  return entry;
}

}  // namespace attn::tools
