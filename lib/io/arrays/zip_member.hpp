#pragma once

#include <memory>
#include <string>

#include "io/arrays/npz_file.hpp"

namespace attn::io {

/// A member of an archive as bytes: one that is stored is read in place, once as a whole for its
/// check sum before anything but its beginning is given. Throws Error(input) naming `address` where
/// it cannot be opened; read does where the check sum is wrong.
std::shared_ptr<const Bytes> open_stored_member(std::shared_ptr<ZipArchive> archive,
                                                const ZipEntry& entry, const std::string& address);

/// A deflated one: its first 128 KiB are unpacked at once, which is where a header is, and all of
/// it into an unnamed temporary in `tmpdir` when anything beyond them is read. Throws Error(input)
/// where it does not unpack to the size that the archive declares, or fails its check sum;
/// Error(output) where the temporary cannot take it.
std::shared_ptr<const Bytes> open_deflated_member(std::shared_ptr<ZipArchive> archive,
                                                  const ZipEntry& entry, const std::string& address,
                                                  const std::string& tmpdir);

}  // namespace attn::io
