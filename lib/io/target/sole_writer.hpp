#pragma once

#include <string>

#include "io/target/file_target.hpp"

namespace attn::io {

/// While it exists, no other process makes a SoleWriter of the same `file`, which is written
/// several times and read in between: its OutputBundle keeps others out only until it is committed.
/// To be made before the file is read. It holds `.FILE.lock.tmp` beside it as hold_temporary() does
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
