#pragma once

#include <functional>
#include <memory>
#include <string>

#include "io/arrays/array_file.hpp"
#include "io/hdf5/h5.hpp"
#include "io/hdf5/never_written.hpp"
#include "io/input.hpp"

namespace attn::io {

class InputFiles;

/// A file open for reading, shared by the datasets that come from it.
struct InputFile {
  std::string label;  ///< "layer3.h5" or "standard input"
  /// The HDF5 file, or the metadata of a file of arrays (array_skeleton) if it has some.
  h5::Handle handle;
  std::shared_ptr<const ArrayFile> arrays = {};  ///< set for the other formats
  std::shared_ptr<const Bytes> bytes = {};       ///< of an HDF5 file, for what is read without HDF5
  std::shared_ptr<NeverWritten> never_written = std::make_shared<NeverWritten>();
  bool is_stream = false;
  // Where the source files of its contents may lie (InputFiles); symbolic links are resolved.
  std::string folder = {};  ///< its own folder; empty for a stream
  std::string limit = {};   ///< the folder of the file that the user named
  std::shared_ptr<InputFiles> files = {};
};

/// Opens a regular file in place; its format is detected from its first bytes. A stream (a FIFO, a
/// process substitution, "-" for standard input) must be HDF5 and is first read to its end into an
/// unnamed temporary in `tmpdir`. Devices are refused, as some never end, and tables of text
/// without `on_table`. Throws what InputBundle's constructor promises.
InputFile open_input_file(const std::string& file, const std::string& tmpdir,
                          const std::function<void(const TableNote&)>& on_table = {});

}  // namespace attn::io
