#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "claim_check/claim_run.hpp"
#include "tensor/shape.hpp"

namespace attn::tools {

/// The claim with its perturbation applied: another command, in a directory with the claim's name
/// and "~". Requires a perturbation.
Claim perturbed(const Claim& claim);

/// Whether a claim was shown to be able to come out the other way.
struct Falsification {
  bool can_fail = false;
  /// If not: what was tried, or the claim's own reason why it cannot be perturbed.
  std::string reason = {};
  std::optional<ClaimResult> perturbed = {};  ///< of the perturbed command, if there is one
};

/// A computed claim, of any kind but printed, can fail if its perturbed command has the opposite
/// verdict, and if a moved expectation (judge_moved), where defined, also turns it. A printed claim
/// can fail if each of the two that exists does so. A claim that could not run or has not the
/// expected verdict cannot fail.
Falsification falsification_of(const Claim& claim, const ClaimResult& result,
                               std::optional<ClaimResult> perturbed);

/// Numbers of claims. Computed are those of the kinds tool and statistics.
struct FalsificationCounts {
  Index computed = 0;
  Index computed_can_fail = 0;
  Index excused = 0;  ///< computed claims that say why they cannot be perturbed
  Index printed = 0;
  Index printed_can_fail = 0;

  /// Whether all computed claims can fail, or say why not.
  bool complete() const { return computed_can_fail + excused == computed; }
};
FalsificationCounts counts(std::span<const Claim> claims, std::span<const Falsification> found);

}  // namespace attn::tools
