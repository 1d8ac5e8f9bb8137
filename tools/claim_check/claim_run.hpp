#pragma once

#include <optional>
#include <string>
#include <vector>

#include "claim_check/claim_measurement.hpp"
#include "claim_check/claims.hpp"
#include "claim_check/command_trace.hpp"

namespace attn::tools {

/// The result of checking a claim.
struct ClaimResult {
  /// The reason why there is no verdict, in one line: the command failed or took too long, or the
  /// address of the value holds nothing. Empty if there is a verdict.
  std::string error;
  std::string log;  ///< the output of the command; only its end if it is long
  Verdict verdict;
  std::optional<Verdict> moved = {};     ///< judge_moved
  std::optional<TestOutcome> test = {};  ///< test_outcome
  double seconds = 0;                    ///< elapsed time of the command
  std::vector<std::string> files =
      {};               ///< that the command left, if the claim fails: "a.h5 (12 KB)"
  bool cached = false;  ///< the command did not run, as its numbers were known
  /// The compared numbers, for a cache; absent without a verdict, or with many numbers.
  std::optional<Measurement> found = {};
  /// The paths that the command looked at, if it was traced.
  std::optional<CommandReads> reads = {};
  std::string not_kept = {};  ///< why a cache does not keep the numbers; else ""

  bool ran() const { return error.empty(); }
};

/// Whether the verdict is the one that the file of claims expects.
bool as_expected(const Claim& claim, const ClaimResult& result);

/// The margin of the verdict in units of headroom_unit, with the other sign for a claim that is
/// expected to be refuted: below 0 if the claim fails; close to 0 if it nearly does. Absent without
/// a verdict or a unit.
std::optional<double> headroom(const Claim& claim, const ClaimResult& result);

/// The result of a claim whose numbers are known, with cached set.
ClaimResult known_result(const Claim& claim, Measurement found, double seconds);

/// Lines for a shell that run the command of a claim again, in a new directory.
std::string again_text(const Claim& claim, const std::string& tools);

struct ClaimPlace {
  std::string folder;       ///< a directory of the claim's own, named after it, is created here
  bool keeps = false;       ///< keeps that directory
  std::string tools;        ///< directory of the tools, first on PATH
  int threads = 1;          ///< ATTN_NUM_THREADS of the command
  std::string traces = {};  ///< a scratch folder for traces of the commands; empty: not traced
};

/// The environment of a claim's command, without HOME and TMPDIR, which are new folders each time,
/// and ATTN_NUM_THREADS, on which no result of a tool depends.
std::vector<std::string> known_environment(const Claim& claim, const ClaimPlace& place);

/// Runs the command of one claim in a new directory and judges the numbers at its addresses
/// (values_at). $CLAIMS is the directory of the file of claims. Throws Error(output) if the
/// directory exists already, or no directory or process can be created.
ClaimResult run_claim(const Claim& claim, const ClaimPlace& place);

}  // namespace attn::tools
