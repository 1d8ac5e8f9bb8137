#pragma once

#include <optional>

#include "claim_check/claim_values.hpp"
#include "claim_check/claim_verdict.hpp"
#include "claim_check/claims.hpp"

namespace attn::tools {

/// The numbers that a claim compares.
struct Measurement {
  Values measured;  ///< reduced, if the claim says so
  Values expected;  ///< none for increasing and decreasing
  Values over;      ///< for slope
  Values against;   ///< for p<
};

/// Throws Error(input) like judge of Criterion, and if datasets of several numbers have different
/// shapes.
Verdict judge(const Claim& claim, const Measurement& found);

/// The outcome of a claim's test; absent for other relations. Throws like run_test.
std::optional<TestOutcome> test_outcome(const Claim& claim, const Measurement& found);

/// The verdict with another expectation, under which it must come out the other way: for =, within
/// and slope, if the claim is expected to hold, each expected number farther from the measured one
/// by twice its tolerance (by 1 for =); if it is refuted, the measured numbers themselves. Absent
/// for other relations and for `any`, where a moved expectation proves nothing.
std::optional<Verdict> judge_moved(const Claim& claim, const Measurement& found);

}  // namespace attn::tools
