#include "seed_test/seed_comparison.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "attnkit/error.hpp"
#include "cli/words.hpp"

namespace attn::tools {
namespace {

using train::Sample;
using train::TTest;

void require_two(const RunGroup& group, const std::string& name) {
  if (group.sample.count >= 2) return;
  throw Error(Failure::input, fmt::format("{} has {}, expected at least 2", name,
                                          cli::counted(group.sample.count, "run")));
}

// For each run n of A, the run of B with the same seed.
std::size_t partner(const SeedComparison& comparison, std::size_t n) {
  const RunGroup& a = comparison.a;
  const RunGroup& b = *comparison.b;
  if (a.seeds.empty() || b.seeds.empty()) return n;
  const auto found = std::find(b.seeds.begin(), b.seeds.end(), a.seeds[n]);
  if (found == b.seeds.end()) {
    throw Error(Failure::input,
                fmt::format("{} has seed {}, and no run of B has it", a.runs[n], a.seeds[n]));
  }
  return static_cast<std::size_t>(found - b.seeds.begin());
}

RunGroup paired_differences(const SeedComparison& comparison) {
  const RunGroup& a = comparison.a;
  const RunGroup& b = *comparison.b;
  if (a.values.size() != b.values.size()) {
    throw Error(Failure::input, fmt::format("A has {} and B has {}, expected pairs",
                                            cli::counted(a.values.size(), "run"), b.values.size()));
  }
  RunGroup differences;
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

}  // namespace

void test(SeedComparison& comparison) {
  if (comparison.test == SeedTest::none) return;
  require_two(comparison.a, "A");
  if (comparison.test != SeedTest::one_sample) require_two(*comparison.b, "B");
  if (comparison.test == SeedTest::paired) comparison.differences = paired_differences(comparison);
  const BothReadings result = {test_as(train::with_population_deviation, comparison),
                               test_as(train::with_sample_deviation, comparison)};
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
