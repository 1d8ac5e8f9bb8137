#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>

#include "claim_check/claim_run.hpp"

namespace attn::tools {

/// The numbers of earlier runs of claims, a file each in a folder. They are taken for the same
/// claim while all of this is the same: what its text says of the command and its numbers; the
/// model of the CPU; this program; and the files that the command names: tools, absolute paths,
/// files below the folder of the file of claims, modules of Python there, and what these files name
/// in turn. Expectations and tolerances may change. Libraries and programs of the system that are
/// not named by their path are not looked at.
///
/// Not kept: claims that measure time (`alone`), that have no verdict, of many or infinite numbers,
/// or whose command names a folder, as its content is not known.
class ClaimCache {
 public:
  /// Makes the folder if it is missing. `tools` is the folder of the tools, `scratch` one for
  /// temporaries. Throws Error(output) if the folder cannot be made, and as file_digests.
  ClaimCache(std::string folder, std::span<const Claim> claims, const std::string& tools,
             const std::string& scratch);

  std::optional<ClaimResult> find(const Claim& claim) const;

  /// Throws Error(output) as cli::write_text.
  void keep(const Claim& claim, const ClaimResult& result) const;

 private:
  std::string file_of(const Claim& claim) const { return folder_ + "/" + claim.id + ".json"; }

  std::string folder_;
  std::map<std::string, std::string> keys_;  ///< by id; without those that are not kept
};

}  // namespace attn::tools
