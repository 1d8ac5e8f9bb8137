#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>

#include "claim_check/claim_run.hpp"
#include "claim_check/path_state.hpp"

namespace attn::tools {

/// The numbers of earlier runs of claims, a file each in a folder. They are taken for the same
/// claim while all of this is the same:
///
/// - what its text says of the command and its numbers; expectations and tolerances may change,
/// - the environment of the command, the user, the umask, the folder of temporaries, the model of
///   the CPU,
/// - this program and its libraries,
/// - the state (PathState) of every path that the command looked at outside of its own folder, as
///   its trace has it (read_trace): programs, libraries, files, folders, and what was not there;
///   also which of these paths lead to the same file.
///
/// A change of these is not noticed: times, except that of the last change of a file that is looked
/// at but not opened; inode numbers; the number of links of a folder; clocks; random numbers;
/// ATTN_NUM_THREADS where only a script reads it; and what the kernel tells of itself, the machine
/// and the process, such as limits, free memory, /proc, /sys and devices.
///
/// Not kept: claims that measure time (`alone`), without a verdict or of many numbers; commands
/// that read ATTN_NUM_THREADS or whose trace says that there is more (CommandReads::more); and
/// what changed since they started.
class ClaimCache {
 public:
  /// Makes the folder if it is missing. Throws Error(output) if that cannot be done.
  ClaimCache(std::string folder, std::span<const Claim> claims, const ClaimPlace& place);

  std::optional<ClaimResult> find(const Claim& claim);

  /// Sets not_kept if the numbers are not kept although there is a verdict. Throws Error(output) as
  /// cli::write_text.
  void keep(const Claim& claim, ClaimResult& result);

 private:
  std::string file_of(const Claim& claim) const { return folder_ + "/" + claim.id + ".cbor"; }

  std::string folder_;
  std::map<std::string, std::string> keys_;  ///< by id; without those that measure time
  PathStates states_;
};

}  // namespace attn::tools
