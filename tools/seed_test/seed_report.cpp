#include "seed_test/seed_report.hpp"

#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

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

bool is_printed(const RunGroup& group) { return group.values.empty(); }

// For a printed mean, only the number after ± is known.
std::string header_line(const RunGroup& group) {
  if (is_printed(group)) return fmt::format("{:<7}{:>11}{:>11}{:>7}\n", "", "mean", "±", "runs");
  return fmt::format("{:<7}{:>11}{:>14}{:>11}{:>7}\n", "", "mean", "± population", "± sample",
                     "runs");
}

std::string group_line(const std::string& name, const RunGroup& group) {
  const train::Sample& sample = group.sample;
  const std::string mean = digits(sample.mean, 6);
  const std::string deviation = digits(group.deviation, 4);
  if (is_printed(group)) {
    return fmt::format("{:<7}{:>11}{:>11}{:>7}\n", name, mean, deviation, sample.count);
  }
  return fmt::format("{:<7}{:>11}{:>14}{:>11}{:>7}\n", name, mean, deviation,
                     digits(sample.sample_deviation, 4), sample.count);
}

std::string question(const SeedComparison& comparison) {
  const std::string better = word(comparison.better);
  if (comparison.test == SeedTest::welch) {
    return fmt::format("Is A {} than B? Welch's test, one-sided:", better);
  }
  if (comparison.test == SeedTest::paired) {
    return fmt::format("Is A {} than B, run by run? Student's test of A - B, one-sided:", better);
  }
  return fmt::format("Is A {} than {}? Student's test, one-sided:", better,
                     digits(*comparison.reference, 6));
}

std::string test_line(const std::string& reading, const train::TTest& test) {
  return fmt::format("{:<34}{:>9}{:>9}{:>10}\n", reading, digits(test.t, 4),
                     digits(test.degrees, 4), digits(test.p, 4));
}

Json json(const RunGroup& group) {
  Json entry;
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
  std::string text = comparison.metric.empty() ? "" : comparison.metric + "\n";
  text += header_line(comparison.a);
  text += group_line("A", comparison.a);
  if (comparison.b) text += group_line("B", *comparison.b);
  if (comparison.differences) text += group_line("A - B", *comparison.differences);
  if (!comparison.result) return text;
  text += "\n" + question(comparison) + "\n";
  text += fmt::format("{:<34}{:>9}{:>9}{:>10}\n", "", "t", "degrees", "p");
  text += test_line("± as deviation of the population", comparison.result->population);
  return text + test_line("± as deviation of the sample", comparison.result->sample);
}

const Figures<SeedComparison>& seed_figures() {
  using Of = const SeedComparison&;
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
      {"count_a", a(count)},
      {"mean_a", a(mean)},
      {"deviation_a", a(deviation)},
      {"sample_deviation_a", a(of_sample), false},
      {"count_b", b(count)},
      {"mean_b", b(mean)},
      {"deviation_b", b(deviation)},
      {"sample_deviation_b", b(of_sample), false},
      {"reference", [](Of of) { return cell(of.reference); }},
      {"difference", [](Of of) { return cell(difference(of)); }},
      {"test", tested([](Of of) { return word(of.test); }), false},
      {"better", tested([](Of of) { return word(of.better); }), false},
      {"t_population", tested([](Of of) { return of.result->population.t; }), false},
      {"degrees_population", tested([](Of of) { return of.result->population.degrees; }), false},
      {"p_population", tested([](Of of) { return of.result->population.p; })},
      {"t_sample", tested([](Of of) { return of.result->sample.t; }), false},
      {"degrees_sample", tested([](Of of) { return of.result->sample.degrees; }), false},
      {"p_sample", tested([](Of of) { return of.result->sample.p; })}};
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
  add_members(seed_figures(), comparison, {"test", "better"}, entry);
  entry["population"] = json(comparison.result->population);
  entry["sample"] = json(comparison.result->sample);
  return entry;
}

}  // namespace attn::tools
