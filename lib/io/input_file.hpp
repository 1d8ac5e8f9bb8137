#pragma once

#include <string>

#include "io/h5.hpp"

namespace attn::io {

/// An HDF5 file open for reading, shared by the datasets that come from it.
struct InputFile {
  std::string label;  ///< "layer3.h5" or "standard input"
  h5::Handle handle;
};

/// Opens a regular file as it is; a stream (a FIFO, a process substitution, "-" for standard
/// input) is read to its end into an unnamed temporary in `tmpdir` first. Throws what
/// InputBundle's constructor promises.
InputFile open_input_file(const std::string& file, const std::string& tmpdir);

}  // namespace attn::io
