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

/// What a number after ± is: the deviation of the population, or of the sample.
enum class Reading { population, sample };

inline constexpr double confidence = 0.95;

/// A test, in both readings of ±.
struct TestResult {
  train::TTest population;
  train::TTest sample;
  train::TTest test;         ///< of the runs themselves, or in the chosen reading of a printed ±
  train::Interval interval;  ///< of the difference, with `confidence`, for `test`
  double detectable;         ///< the true difference that would be seen in four of five such tests
};

/// One metric of one or two groups of runs.
struct SeedComparison {
  std::string metric;  ///< empty for numbers
  RunGroup a;
  std::optional<RunGroup> b = {};
  std::optional<double> reference = {};  ///< the number that one_sample compares A with
  SeedTest test = SeedTest::none;
  Better better = Better::lower;
  Reading reading = Reading::sample;         ///< of printed deviations; which one runs show
  std::optional<RunGroup> differences = {};  ///< A − B of a paired test
  std::optional<TestResult> result = {};     ///< absent without a test
};

/// Tests whether A is better. Fills in `differences` and `result`. Pairs are runs with the same
/// seed or, if seeds are unknown, at the same position. Throws Error(input) for fewer than two runs
/// in a group whose deviation the test uses, and for runs without a partner; Error(numerical) if
/// all deviations are 0. A difference is seen if its interval does not contain 0. The detectable
/// one is (t_0.975 + t_0.8) standard errors, with the quantiles of Student's distribution.
void test(SeedComparison& comparison);

/// The mean of A less that of B, or less the reference; absent if A stands alone.
std::optional<double> difference(const SeedComparison& comparison);

}  // namespace attn::tools
