#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "io/target/target_writer.hpp"

namespace attn::io {

/// Writes a zip archive of uncompressed members. libzip is not used for this, because it would make
/// its own temporary beside the file and rename it at the end; here the Target does so, which
/// leaves nothing behind if a signal arrives. Sizes are always written in ZIP64 fields, as NumPy
/// does, so they need not be known in advance.
/// Source: PKWARE's APPNOTE.TXT 6.3.10, sections 4.3.7, 4.3.12, 4.3.14 to 4.3.16, 4.5.3.
class ZipWriter {
 public:
  explicit ZipWriter(TargetWriter& out) : out_(out) {}

  /// Begins a member, whose data begins at a multiple of 64 bytes. `name` is UTF-8, at most 65535
  /// bytes.
  void begin(const std::string& name);
  void append(const void* data, Index count);
  void end();

  /// Writes the directory; to be called after the last member's end().
  void finish();

 private:
  struct Member {
    std::string name;
    std::uint64_t offset = 0;
    std::uint64_t size = 0;
    std::uint32_t check = 0;
  };
  std::string local_header(const Member& member) const;
  std::string directory_entry(const Member& member) const;

  TargetWriter& out_;
  std::vector<Member> members_;
};

}  // namespace attn::io
