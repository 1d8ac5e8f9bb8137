#include "claim_check/significance_test.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "attnkit/error.hpp"

namespace attn::tools {
namespace {

using train::Interval;
using train::Sample;

constexpr double confidence = 0.95;

[[noreturn]] void refuse_numbers(const std::string& what) { throw Error(Failure::input, what); }

// The p of an alternative, from the probabilities that the values are less, `less`, and that they
// are greater.
double p_of(Alternative alternative, double less, double greater) {
  if (alternative == Alternative::less) return less;
  if (alternative == Alternative::greater) return greater;
  return std::min(1.0, 2 * std::min(less, greater));
}

double one_number(std::span<const double> against, const char* test) {
  if (against.size() == 1) return against.front();
  refuse_numbers(
      fmt::format("{} numbers to test against, expected one for {}", against.size(), test));
}

Sample sample_of_two(std::span<const double> values, const char* what) {
  if (values.size() < 2) {
    refuse_numbers(fmt::format("{} has {} numbers, expected at least 2", what, values.size()));
  }
  return train::sample_of(values);
}

std::vector<double> differences(std::span<const double> values, std::span<const double> against) {
  if (against.size() != 1 && against.size() != values.size()) {
    refuse_numbers(
        fmt::format("{} numbers against {}, expected pairs", values.size(), against.size()));
  }
  std::vector<double> found;
  for (std::size_t n = 0; n < values.size(); ++n) {
    found.push_back(values[n] - against[against.size() == 1 ? 0 : n]);
  }
  return found;
}

TestOutcome welch(Alternative alternative, std::span<const double> values,
                  std::span<const double> against) {
  const Sample a = sample_of_two(values, "value");
  const Sample b = sample_of_two(against, "against");
  const double p =
      p_of(alternative, train::welch_one_sided(a, b).p, train::welch_one_sided(b, a).p);
  return {a.count, b.count, a.mean - b.mean, train::welch_interval(a, b, confidence), p};
}

TestOutcome of_mean(Alternative alternative, std::span<const double> values, double reference) {
  const Sample sample = sample_of_two(values, "value");
  Sample negated = sample;
  negated.mean = -sample.mean;
  // Not 1 minus the other tail, which would cancel for small results.
  const double less = train::one_sample_one_sided(negated, -reference).p;
  const double greater = train::one_sample_one_sided(sample, reference).p;
  return {sample.count, 0, sample.mean, train::mean_interval(sample, confidence),
          p_of(alternative, less, greater)};
}

TestOutcome of_share(Alternative alternative, Index successes, Index count, double share) {
  const double greater = train::binomial_upper_tail(successes, count, share);
  const double less = train::binomial_upper_tail(count - successes, count, 1 - share);
  return {count, 0, static_cast<double>(successes) / static_cast<double>(count),
          train::proportion_interval(successes, count, confidence),
          p_of(alternative, less, greater)};
}

TestOutcome sign(Alternative alternative, std::span<const double> values,
                 std::span<const double> against) {
  const std::vector<double> all = differences(values, against);
  const auto above = std::count_if(all.begin(), all.end(), [](double x) { return x > 0; });
  const auto below = std::count_if(all.begin(), all.end(), [](double x) { return x < 0; });
  if (above + below == 0) refuse_numbers("all values are equal to what they are tested against");
  return of_share(alternative, above, above + below, 0.5);
}

TestOutcome proportion(Alternative alternative, std::span<const double> values,
                       std::span<const double> against) {
  const double share = one_number(against, "proportion");
  if (!(share > 0 && share < 1)) refuse_numbers("against is no share between 0 and 1");
  if (values.empty()) refuse_numbers("value has no numbers");
  const auto successes = std::count(values.begin(), values.end(), 1.0);
  if (successes + std::count(values.begin(), values.end(), 0.0) !=
      static_cast<std::ptrdiff_t>(values.size())) {
    refuse_numbers("value has other numbers than 0 and 1");
  }
  return of_share(alternative, successes, static_cast<Index>(values.size()), share);
}

}  // namespace

const std::vector<std::string>& test_names() {
  static const std::vector<std::string> names = {"welch", "one-sample", "paired", "sign",
                                                 "proportion"};
  return names;
}

const std::vector<std::string>& alternative_names() {
  static const std::vector<std::string> names = {"less", "greater", "two-sided"};
  return names;
}

TestOutcome run_test(const SignificanceTest& test, std::span<const double> values,
                     std::span<const double> against) {
  TestOutcome found;
  switch (test.kind) {
    case TestKind::welch:
      found = welch(test.alternative, values, against);
      break;
    case TestKind::one_sample:
      found = of_mean(test.alternative, values, one_number(against, "one-sample"));
      break;
    case TestKind::paired:
      found = of_mean(test.alternative, differences(values, against), 0);
      break;
    case TestKind::sign:
      found = sign(test.alternative, values, against);
      break;
    case TestKind::proportion:
      found = proportion(test.alternative, values, against);
      break;
  }
  if (std::isnan(found.p)) refuse_numbers("the deviation is 0, so no test is possible");
  return found;
}

std::string test_text(const SignificanceTest& test, const TestOutcome& found) {
  static constexpr const char* names[] = {"Welch's test", "one-sample t-test", "paired t-test",
                                          "sign test", "binomial test"};
  static constexpr const char* estimates[] = {"difference", "mean", "mean difference",
                                              "share above", "share"};
  const auto kind = static_cast<std::size_t>(test.kind);
  const std::string count = found.other_count == 0
                                ? fmt::format("{}", found.count)
                                : fmt::format("{} and {}", found.count, found.other_count);
  return fmt::format("{}, n = {}, {} {:.4g}, 95% interval [{:.4g}, {:.4g}], {}", names[kind], count,
                     estimates[kind], found.estimate, found.interval.low, found.interval.high,
                     alternative_names()[static_cast<std::size_t>(test.alternative)]);
}

}  // namespace attn::tools
