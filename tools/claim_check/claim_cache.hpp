#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>

#include "claim_check/claim_run.hpp"
#include "claim_check/path_state.hpp"

namespace attn::tools {

/// The numbers of earlier runs of claims, one file each in a folder. They are reused for a claim
/// while all of this is unchanged:
///
/// - the command and its numbers in the claim's text; expectations and tolerances may change,
/// - the environment of the command, the user, the umask, the folder of temporaries, the model of
///   the CPU,
/// - this program and its libraries,
/// - the state (PathState) of every path outside its own folder that the command looked at, by its
/// trace (read_trace): programs, libraries, files, folders, and missing ones; also which of these
/// paths lead to the same file.
///
/// Changes of these are not noticed: times, except the last change of a file that is looked at but
/// not opened; inode numbers; the number of links of a folder; clocks; random numbers;
/// ATTN_NUM_THREADS if only a script reads it; and the kernel's information on itself, the machine
/// and the process, such as limits, free memory, /proc, /sys and devices.
///
/// Not kept: claims that measure time (`alone`), have no verdict or have many numbers; commands
/// that read ATTN_NUM_THREADS, depend on more (CommandReads::more), or read files that changed
/// after their start.
class ClaimCache {
 public:
  /// Makes the folder if it is missing. Throws Error(output) if this fails.
  ClaimCache(std::string folder, std::span<const Claim> claims, const ClaimPlace& place);

  std::optional<ClaimResult> find(const Claim& claim);

  /// Sets not_kept if the numbers are not kept although there is a verdict. Throws Error(output)
  /// like cli::write_text.
  void keep(const Claim& claim, ClaimResult& result);

 private:
  std::string file_of(const Claim& claim) const { return folder_ + "/" + claim.id + ".cbor"; }

  std::string folder_;
  std::map<std::string, std::string> keys_;  ///< by id; without claims that measure time
  PathStates states_;
};

}  // namespace attn::tools
