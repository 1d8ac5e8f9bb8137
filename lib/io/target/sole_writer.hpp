#pragma once

#include <string>

#include "io/target/file_target.hpp"

namespace attn::io {

/// While a SoleWriter exists, no other process can make one of the same `file`, which is written
/// several times and read in between; an OutputBundle keeps others out only until its commit. Make
/// it before the file is read. It holds `.FILE.lock.tmp` beside the file like hold_temporary()
/// (system/held_temporary.hpp), with the same limits. Symbolic links are followed.
class SoleWriter {
 public:
  /// Throws Error(output): "ck is being written by another process", or why the folder cannot be
  /// written to.
  explicit SoleWriter(const std::string& file);

 private:
  FileTarget lock_;
};

}  // namespace attn::io
