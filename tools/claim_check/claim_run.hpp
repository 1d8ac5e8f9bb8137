#pragma once

#include <string>

#include "claim_check/claims.hpp"

namespace attn::tools {

/// What became of a claim.
struct ClaimResult {
  /// Why it could not be found out, on one line: the command failed or took too long, or there is
  /// nothing where the value was said to be. Empty where there is a verdict.
  std::string error;
  std::string log;  ///< what the command wrote, its end where that is long
  Verdict verdict;
  double seconds = 0;  ///< by the clock, of the command

  bool ran() const { return error.empty(); }
};

/// Whether it came out as the file of claims expects it to.
bool as_expected(const Claim& claim, const ClaimResult& result);

struct ClaimPlace {
  std::string folder;  ///< a directory for the claim's own, named after it, is made in it
  bool keeps = false;  ///< leaves it there
  std::string tools;   ///< directory of the tools, first on PATH
  int threads = 1;     ///< ATTN_NUM_THREADS of the command
};

/// Runs the command of one claim, in a new directory, and judges what it made. The command sees the
/// directory of its file of claims as CLAIMS. Where values stand: FILE.json:/pointer is a number,
/// or numbers in arrays, in their order, of a JSON file (RFC 6901; true is 1, false 0); "status" is
/// the command's exit status; all else is the address of a dataset (io::parse_address), its numbers
/// row-major. Files are those of the claim's directory. Throws Error(output) where no directory or
/// process can be made, or the directory is there already.
ClaimResult run_claim(const Claim& claim, const ClaimPlace& place);

}  // namespace attn::tools
