#pragma once

#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "tensor/shape.hpp"
#include "train/significance.hpp"

namespace attn::tools {

enum class TestKind {
  welch,       ///< the means of two samples, with a variance each
  one_sample,  ///< the mean of a sample and a number (Student)
  paired,      ///< the mean of the differences of pairs, and 0
  sign,        ///< how many of a sample lie above a number, or above their partners; ties are
               ///< left out
  proportion,  ///< a share of successes, given as 1 and 0, and a number (exact binomial test)
};
/// "welch", "one-sample", "paired", "sign", "proportion".
const std::vector<std::string>& test_names();

/// The alternative: the measured side is less than the other, greater, or different.
enum class Alternative { less, greater, two_sided };
/// "less", "greater", "two-sided".
const std::vector<std::string>& alternative_names();

struct SignificanceTest {
  TestKind kind = TestKind::welch;
  Alternative alternative = Alternative::less;
  std::variant<std::vector<double>, std::string> against;  ///< numbers, or their address
};

/// The outcome of a test.
struct TestOutcome {
  Index count = 0;                ///< of the values that were tested
  Index other_count = 0;          ///< of the second sample of welch, else 0
  double estimate = 0;            ///< the difference of means, the mean, or the share
  train::Interval interval = {};  ///< of the estimate, with a confidence of 95%
  double p = 0;
};

/// p of the test: the probability, under the null hypothesis, of at least this outcome in the
/// tested direction; for two-sided, twice the lesser one, at most 1. Throws Error(input) for
/// numbers that the test does not apply to: too few, without deviation, without partners, or other
/// than successes and failures.
TestOutcome run_test(const SignificanceTest& test, std::span<const double> values,
                     std::span<const double> against);

/// "Welch's test, n = 4 and 4, difference -3.1, 95% interval [-5.2, -1.0], less".
std::string test_text(const SignificanceTest& test, const TestOutcome& found);

}  // namespace attn::tools
