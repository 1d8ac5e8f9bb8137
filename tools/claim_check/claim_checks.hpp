#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "claim_check/claim_run.hpp"
#include "claim_check/scratch_folder.hpp"
#include "cli/command.hpp"

namespace attn::tools {

/// The folder of this program and the other tools. Throws Error(input).
std::string tool_folder();

/// Runs claims, --jobs at a time, but claims that measure time one by one. With --cache, runs only
/// claims without known numbers. Must be created before other threads start.
class ClaimChecks {
 public:
  explicit ClaimChecks(const cli::Arguments& arguments);

  /// Results in the order of the claims. Warns if --cache cannot keep any. Throws like run_claim
  /// and ClaimCache.
  std::vector<ClaimResult> run(std::span<const Claim> claims, cli::Report& report);

  /// A folder for temporaries, which is removed at the end.
  std::string work_folder() const;

  /// Removes all temporaries; returns false if this fails for some.
  bool remove_temporaries() { return scratch_.remove(); }
  const std::string& scratch() const { return scratch_.path(); }

 private:
  void run_together(std::span<const Claim> claims, const std::vector<std::size_t>& which,
                    std::vector<ClaimResult>& results);

  const cli::Arguments& arguments_;
  ScratchFolder scratch_;
  ClaimPlace place_;
};

}  // namespace attn::tools
