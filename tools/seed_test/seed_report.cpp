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

// NaN stands for an unknown deviation, of a printed mean or of a single run.
Cell number_cell(double value) { return std::isnan(value) ? Cell() : Cell(value); }

void add_cells(std::vector<Cell>& row, const RunGroup* group) {
  if (group == nullptr) {
    row.resize(row.size() + 4);
    return;
  }
  row.emplace_back(group->sample.count);
  row.emplace_back(group->sample.mean);
  row.emplace_back(group->deviation);
  row.push_back(number_cell(group->sample.sample_deviation));
}

void add_cells(std::vector<Cell>& row, const train::TTest* test) {
  if (test == nullptr) {
    row.resize(row.size() + 3);
    return;
  }
  row.insert(row.end(), {Cell(test->t), Cell(test->degrees), Cell(test->p)});
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

std::vector<TableColumn> seed_columns() {
  return {{"metric"},
          {"count_a"},
          {"mean_a"},
          {"deviation_a"},
          {"sample_deviation_a", false},
          {"count_b"},
          {"mean_b"},
          {"deviation_b"},
          {"sample_deviation_b", false},
          {"reference"},
          {"difference"},
          {"test", false},
          {"better", false},
          {"t_population", false},
          {"degrees_population", false},
          {"p_population"},
          {"t_sample", false},
          {"degrees_sample", false},
          {"p_sample"}};
}

std::vector<Cell> seed_row(const SeedComparison& comparison) {
  std::vector<Cell> row;
  row.push_back(comparison.metric.empty() ? Cell() : Cell(comparison.metric));
  add_cells(row, &comparison.a);
  add_cells(row, comparison.b ? &*comparison.b : nullptr);
  row.push_back(cell(comparison.reference));
  row.push_back(cell(difference(comparison)));
  const bool tested = comparison.result.has_value();
  row.push_back(tested ? Cell(word(comparison.test)) : Cell());
  row.push_back(tested ? Cell(word(comparison.better)) : Cell());
  add_cells(row, tested ? &comparison.result->population : nullptr);
  add_cells(row, tested ? &comparison.result->sample : nullptr);
  return row;
}

Json seed_json(const SeedComparison& comparison) {
  Json entry;
  entry["metric"] = comparison.metric.empty() ? Json() : Json(comparison.metric);
  entry["a"] = json(comparison.a);
  if (comparison.b) entry["b"] = json(*comparison.b);
  if (comparison.reference) entry["reference"] = *comparison.reference;
  if (const auto gap = difference(comparison)) entry["difference"] = *gap;
  if (comparison.differences) entry["differences"] = json(*comparison.differences);
  if (!comparison.result) return entry;
  entry["test"] = word(comparison.test);
  entry["better"] = word(comparison.better);
  entry["population"] = json(comparison.result->population);
  entry["sample"] = json(comparison.result->sample);
  return entry;
}

}  // namespace attn::tools
