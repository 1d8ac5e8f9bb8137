#include "claim_check/claim_measurement.hpp"

#include <fmt/format.h>

#include "attnkit/error.hpp"

namespace attn::tools {
namespace {

// Away from the measured number.
double moved(const Criterion& criterion, double measured, double expected) {
  const double away =
      criterion.relation == Relation::equal ? 1 : 2 * tolerance_at(criterion, expected);
  return expected >= measured ? expected + away : expected - away;
}

bool has_expectation_to_move(Relation relation) {
  return relation == Relation::equal || relation == Relation::within || relation == Relation::slope;
}

}  // namespace

std::optional<TestOutcome> test_outcome(const Claim& claim, const Measurement& found) {
  if (!claim.test) return std::nullopt;
  return run_test(*claim.test, found.measured.numbers, found.against.numbers);
}

Verdict judge(const Claim& claim, const Measurement& found) {
  if (const auto outcome = test_outcome(claim, found)) {
    return judge(claim.criterion, std::span(&outcome->p, 1), found.expected.numbers, {});
  }
  const Values& measured = found.measured;
  const Values& expected = found.expected;
  if (measured.shape && expected.shape && expected.numbers.size() != 1 &&
      *measured.shape != *expected.shape) {
    throw Error(Failure::input,
                fmt::format("{} is {}, {} is {}", claim.value, to_string(*measured.shape),
                            std::get<std::string>(claim.expected), to_string(*expected.shape)));
  }
  return judge(claim.criterion, measured.numbers, expected.numbers, found.over.numbers);
}

std::optional<Verdict> judge_moved(const Claim& claim, const Measurement& found) {
  const Criterion& criterion = claim.criterion;
  if (!has_expectation_to_move(criterion.relation) || criterion.any) return std::nullopt;
  const Verdict verdict = judge(claim, found);
  const bool is_slope = criterion.relation == Relation::slope;
  std::vector<double> expected = found.expected.numbers;
  if (claim.refuted) {
    expected = is_slope ? std::vector<double>{verdict.measured} : found.measured.numbers;
  } else {
    const bool one_each = !is_slope && expected.size() == found.measured.numbers.size();
    for (std::size_t k = 0; k < expected.size(); ++k) {
      const double measured = one_each ? found.measured.numbers[k] : verdict.measured;
      expected[k] = moved(criterion, measured, expected[k]);
    }
  }
  return judge(criterion, found.measured.numbers, expected, found.over.numbers);
}

}  // namespace attn::tools
