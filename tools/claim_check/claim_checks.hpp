#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "claim_check/claim_run.hpp"
#include "claim_check/scratch_folder.hpp"
#include "cli/command.hpp"

namespace attn::tools {

/// The folder of this program, in which the other tools are. Throws Error(input).
std::string tool_folder();

/// Runs claims, as many side by side as --jobs says, and those that measure time alone. With
/// --cache, only those whose numbers are not known. Must be created before other threads start.
class ClaimChecks {
 public:
  explicit ClaimChecks(const cli::Arguments& arguments);

  /// Results in the order of the claims. Warns if --cache cannot keep any. Throws as run_claim and
  /// ClaimCache.
  std::vector<ClaimResult> run(std::span<const Claim> claims, cli::Report& report);

  /// A folder for temporaries, which is removed at the end.
  std::string work_folder() const;

  /// Removes all temporaries; returns false if some cannot be.
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
