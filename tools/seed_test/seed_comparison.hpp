#pragma once

#include <optional>
#include <string>

#include "seed_test/run_group.hpp"
#include "train/significance.hpp"

namespace attn::tools {

enum class Better { lower, higher };

enum class SeedTest {
  none,
  welch,       ///< A against B, both with deviations
  one_sample,  ///< A against a known number
  paired,      ///< the differences of A and B, run by run, against 0
};

/// The test in both readings of ±: as the deviation of the population, and of the sample.
struct BothReadings {
  train::TTest population;
  train::TTest sample;
};

/// One metric of one or two groups of runs.
struct SeedComparison {
  std::string metric;  ///< empty for numbers
  RunGroup a;
  std::optional<RunGroup> b = {};
  std::optional<double> reference = {};  ///< the number that one_sample compares A with
  SeedTest test = SeedTest::none;
  Better better = Better::lower;
  std::optional<RunGroup> differences = {};  ///< A − B of a paired test
  std::optional<BothReadings> result = {};   ///< absent without a test
};

/// Tests whether A is better. Fills in `differences` and `result`. Pairs are runs with the same
/// seed or, if seeds are unknown, at the same position. Throws Error(input) for fewer than two runs
/// in a group whose deviation the test uses, and for runs without a partner; Error(numerical) if
/// all deviations are 0.
void test(SeedComparison& comparison);

/// The mean of A less that of B, or less the reference; absent if A stands alone.
std::optional<double> difference(const SeedComparison& comparison);

}  // namespace attn::tools
