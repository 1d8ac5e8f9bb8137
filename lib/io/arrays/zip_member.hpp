#pragma once

#include <memory>
#include <string>

#include "io/arrays/npz_file.hpp"

namespace attn::io {

/// An uncompressed member of an archive as bytes, read in place. The first read beyond its first
/// bytes reads all of it once to verify its checksum. Throws Error(input) naming `address` if it
/// cannot be opened; read() throws if the checksum is wrong.
std::shared_ptr<const Bytes> open_stored_member(std::shared_ptr<ZipArchive> archive,
                                                const ZipEntry& entry, const std::string& address);

/// A deflated member. Its first 128 KiB, which hold the header, are unpacked at once; the first
/// read beyond them unpacks the whole member into an unnamed temporary in `tmpdir`. Throws
/// Error(input) if its unpacked size differs from the size that the archive declares or its
/// checksum is wrong; Error(output) if the temporary cannot be written.
std::shared_ptr<const Bytes> open_deflated_member(std::shared_ptr<ZipArchive> archive,
                                                  const ZipEntry& entry, const std::string& address,
                                                  const std::string& tmpdir);

}  // namespace attn::io
