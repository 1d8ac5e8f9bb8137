#include "seed_test/seed_comparison.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "attnkit/error.hpp"
#include "cli/words.hpp"

namespace attn::tools {
namespace {

using train::Interval;
using train::Sample;
using train::TTest;

void require_two(const RunGroup& group) {
  if (group.sample.count >= 2) return;
  throw Error(Failure::input, fmt::format("{} has {}, expected at least 2", group.name,
                                          cli::counted(group.sample.count, "run")));
}

// For each run n of A, the run of B with the same seed.
std::size_t partner(const SeedComparison& comparison, std::size_t n) {
  const RunGroup& a = comparison.a;
  const RunGroup& b = *comparison.b;
  if (a.seeds.empty() || b.seeds.empty()) return n;
  const auto found = std::find(b.seeds.begin(), b.seeds.end(), a.seeds[n]);
  if (found == b.seeds.end()) {
    throw Error(Failure::input, fmt::format("{} has seed {}, and no run of {} has it", a.runs[n],
                                            a.seeds[n], b.name));
  }
  return static_cast<std::size_t>(found - b.seeds.begin());
}

RunGroup paired_differences(const SeedComparison& comparison) {
  const RunGroup& a = comparison.a;
  const RunGroup& b = *comparison.b;
  if (a.values.size() != b.values.size()) {
    throw Error(Failure::input,
                fmt::format("{} has {} and {} has {}, expected pairs", a.name,
                            cli::counted(a.values.size(), "run"), b.name, b.values.size()));
  }
  RunGroup differences;
  differences.name = fmt::format("{} - {}", a.name, b.name);
  for (std::size_t n = 0; n < a.values.size(); ++n) {
    differences.values.push_back(a.values[n] - b.values[partner(comparison, n)]);
  }
  differences.sample = train::sample_of(differences.values);
  differences.deviation = differences.sample.population_deviation;
  return differences;
}

using ReadDeviation = Sample (*)(double mean, double deviation, Index count);

Sample read_as(ReadDeviation read, const RunGroup& group) {
  return read(group.sample.mean, group.deviation, group.sample.count);
}

// The library tests whether the population mean of a sample is above a number.
TTest one_sample(Sample sample, double reference, Better better) {
  if (better == Better::higher) return train::one_sample_one_sided(sample, reference);
  sample.mean = -sample.mean;
  return train::one_sample_one_sided(sample, -reference);
}

TTest test_as(ReadDeviation read, const SeedComparison& comparison) {
  const Better better = comparison.better;
  if (comparison.differences) return one_sample(read_as(read, *comparison.differences), 0, better);
  const Sample a = read_as(read, comparison.a);
  if (comparison.test == SeedTest::one_sample) {
    return one_sample(a, comparison.reference.value(), better);
  }
  const Sample b = read_as(read, *comparison.b);
  return better == Better::lower ? train::welch_one_sided(a, b) : train::welch_one_sided(b, a);
}

Interval interval_as(ReadDeviation read, const SeedComparison& comparison, double level) {
  if (comparison.differences) {
    return train::mean_interval(read_as(read, *comparison.differences), level);
  }
  const Sample a = read_as(read, comparison.a);
  if (comparison.test == SeedTest::welch) {
    return train::welch_interval(a, read_as(read, *comparison.b), level);
  }
  const Interval mean = train::mean_interval(a, level);
  const double reference = comparison.reference.value();
  return {mean.low - reference, mean.high - reference};
}

double half(const Interval& interval) { return (interval.high - interval.low) / 2; }

TestResult result_of(const SeedComparison& comparison) {
  TestResult result = {};
  result.population = test_as(train::with_population_deviation, comparison);
  result.sample = test_as(train::with_sample_deviation, comparison);
  // RunGroup::deviation of runs is known to be the deviation of the population.
  const bool is_population =
      !comparison.a.values.empty() || comparison.reading == Reading::population;
  const ReadDeviation read =
      is_population ? train::with_population_deviation : train::with_sample_deviation;
  result.test = is_population ? result.population : result.sample;
  result.interval = interval_as(read, comparison, confidence);
  // T exceeds t_0.8 with the probability 1/5, as it exceeds the end of an interval of 60 %.
  result.detectable = half(result.interval) + half(interval_as(read, comparison, 0.6));
  return result;
}

}  // namespace

void test(SeedComparison& comparison) {
  if (comparison.test == SeedTest::none) return;
  require_two(comparison.a);
  if (comparison.test != SeedTest::one_sample) require_two(*comparison.b);
  if (comparison.test == SeedTest::paired) comparison.differences = paired_differences(comparison);
  const TestResult result = result_of(comparison);
  if (std::isnan(result.population.p) || std::isnan(result.sample.p)) {
    throw Error(Failure::numerical,
                comparison.metric + (comparison.metric.empty() ? "" : ": ") +
                    "the deviation is 0, so no test is possible",
                "runs with different seeds differ");
  }
  comparison.result = result;
}

std::optional<double> difference(const SeedComparison& comparison) {
  if (comparison.differences) return comparison.differences->sample.mean;
  const double a = comparison.a.sample.mean;
  if (comparison.b) return a - comparison.b->sample.mean;
  if (comparison.reference) return a - *comparison.reference;
  return std::nullopt;
}

}  // namespace attn::tools
