#pragma once

#include <memory>
#include <string>

#include "io/arrays/array_file.hpp"
#include "io/hdf5/h5.hpp"

namespace attn::io {

class InputFiles;

/// A file open for reading, shared by the datasets that come from it.
struct InputFile {
  std::string label;                             ///< "layer3.h5" or "standard input"
  h5::Handle handle;                             ///< of an HDF5 file
  std::shared_ptr<const ArrayFile> arrays = {};  ///< of one of the other formats
  bool is_stream = false;
  // Where the sources of what it holds may lie (InputFiles); symbolic links are resolved.
  std::string folder = {};  ///< its own; empty for a stream
  std::string limit = {};   ///< that of the file the user named
  std::shared_ptr<InputFiles> files = {};
};

/// Opens a regular file, whose format its first bytes tell, as it is; a stream (a FIFO, a process
/// substitution, "-" for standard input) is read to its end into an unnamed temporary in `tmpdir`
/// first, and is HDF5. Throws what InputBundle's constructor promises.
InputFile open_input_file(const std::string& file, const std::string& tmpdir);

}  // namespace attn::io
