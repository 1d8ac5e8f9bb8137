#pragma once

#include <string>

#include "claim_check/claims.hpp"

namespace attn::tools {

/// The result of checking a claim.
struct ClaimResult {
  /// The reason why there is no verdict, in one line: the command failed or took too long, or the
  /// address of the value holds nothing. Empty if there is a verdict.
  std::string error;
  std::string log;  ///< the output of the command; only its end if it is long
  Verdict verdict;
  double seconds = 0;  ///< elapsed time of the command

  bool ran() const { return error.empty(); }
};

/// Whether the verdict is the one that the file of claims expects.
bool as_expected(const Claim& claim, const ClaimResult& result);

struct ClaimPlace {
  std::string folder;  ///< a directory of the claim's own, named after it, is created here
  bool keeps = false;  ///< keeps that directory
  std::string tools;   ///< directory of the tools, first on PATH
  int threads = 1;     ///< ATTN_NUM_THREADS of the command
};

/// Runs the command of one claim in a new directory and judges its result. $CLAIMS is the directory
/// of the file of claims. Addresses of values: FILE.json:/pointer is a number, or numbers in arrays
/// in their order, of a JSON file (RFC 6901; true is 1, false 0); "status" is the command's exit
/// status; anything else is the address of a dataset (io::parse_address), read row-major. File
/// names are relative to the claim's directory. Throws Error(output) if the directory exists
/// already, or no directory or process can be created.
ClaimResult run_claim(const Claim& claim, const ClaimPlace& place);

}  // namespace attn::tools
