#include "claim_check/claim_falsification.hpp"

#include <fmt/format.h>

namespace attn::tools {
namespace {

std::string replaced(std::string text, const Perturbation& change) {
  for (std::size_t at = text.find(change.text); at != std::string::npos;
       at = text.find(change.text, at + change.replacement.size())) {
    text.replace(at, change.text.size(), change.replacement);
  }
  return text;
}

const char* other_verdict(const Claim& claim) { return claim.refuted ? "hold" : "fail"; }

// Empty if the verdict turned.
std::string reason_of_perturbed(const Claim& claim, const ClaimResult& perturbed) {
  if (!perturbed.ran()) return "the perturbed command has no verdict: " + perturbed.error;
  if (perturbed.verdict.holds == claim.refuted) return "";
  return fmt::format("does not {} when perturbed: measured {:.6g}, expected {:.6g}",
                     other_verdict(claim), perturbed.verdict.measured, perturbed.verdict.expected);
}

std::string reason_of_moved(const Claim& claim, const Verdict& moved) {
  if (moved.holds == claim.refuted) return "";
  return fmt::format("does not {} when its expectation moves to {:.6g}", other_verdict(claim),
                     moved.expected);
}

}  // namespace

Claim perturbed(const Claim& claim) {
  Claim other = claim;
  other.id += "~";
  other.command = replaced(claim.command, claim.perturbation.value());
  return other;
}

Falsification falsification_of(const Claim& claim, const ClaimResult& result,
                               std::optional<ClaimResult> perturbed) {
  Falsification found;
  if (!result.ran()) {
    found.reason = "could not run: " + result.error;
  } else if (!as_expected(claim, result)) {
    found.reason = "does not have its expected verdict";
  } else if (!claim.unperturbed.empty()) {
    found.reason = claim.unperturbed;
  } else if (claim.kind != ClaimKind::printed && !perturbed) {
    found.reason = "names no perturb";
  } else if (!perturbed && !result.moved) {
    found.reason = "is a printed inequality, for which a moved expectation says nothing";
  } else {
    if (perturbed) found.reason = reason_of_perturbed(claim, *perturbed);
    if (found.reason.empty() && result.moved) {
      found.reason = reason_of_moved(claim, *result.moved);
    }
    found.can_fail = found.reason.empty();
  }
  found.perturbed = std::move(perturbed);
  return found;
}

FalsificationCounts counts(std::span<const Claim> claims, std::span<const Falsification> found) {
  FalsificationCounts all;
  for (std::size_t n = 0; n < claims.size(); ++n) {
    const Index can_fail = found[n].can_fail ? 1 : 0;
    if (claims[n].kind == ClaimKind::printed) {
      ++all.printed;
      all.printed_can_fail += can_fail;
    } else {
      ++all.computed;
      all.computed_can_fail += can_fail;
      all.excused += claims[n].unperturbed.empty() ? 0 : 1;
    }
  }
  return all;
}

}  // namespace attn::tools
