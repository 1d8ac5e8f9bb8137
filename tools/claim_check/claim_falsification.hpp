#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "claim_check/claim_run.hpp"
#include "tensor/shape.hpp"

namespace attn::tools {

/// The claim with its perturbation made: another command, in a directory named after it and "~".
/// Requires a perturbation.
Claim perturbed(const Claim& claim);

/// Whether it was shown that a claim can come out the other way.
struct Falsification {
  bool can_fail = false;
  /// If not: what was tried; of a claim that says why it cannot be perturbed, that reason.
  std::string reason = {};
  std::optional<ClaimResult> perturbed = {};  ///< of the perturbed command, if there is one
};

/// A computed claim can fail if its perturbed command has a verdict and that is the other one, and
/// if a moved expectation (judge_moved), where that has a meaning, turns it as well. A printed
/// claim can fail if what there is of the two does. A claim that could not run cannot.
Falsification falsification_of(const Claim& claim, const ClaimResult& result,
                               std::optional<ClaimResult> perturbed);

/// Numbers of claims.
struct FalsificationCounts {
  Index computed = 0;
  Index computed_can_fail = 0;
  Index excused = 0;  ///< computed ones that say why they cannot be perturbed
  Index printed = 0;
  Index printed_can_fail = 0;

  /// Whether all computed claims can fail, or say why not.
  bool complete() const { return computed_can_fail + excused == computed; }
};
FalsificationCounts counts(std::span<const Claim> claims, std::span<const Falsification> found);

}  // namespace attn::tools
