#pragma once

#include <functional>
#include <map>
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
  /// The HDF5 file, or the groups and metadata of a file of arrays (array_skeleton); unset for a
  /// single array.
  h5::Handle handle;
  std::shared_ptr<const ArrayFile> arrays = {};        ///< set for the other formats
  std::map<std::string, std::string> paths = {};       ///< the names of the arrays, by path
  std::map<std::string, std::string> by_slashes = {};  ///< the same, by with_slashes(path)
  bool flat = false;                        ///< whether the file says nothing about groups
  std::shared_ptr<const Bytes> bytes = {};  ///< of an HDF5 file, for what is read without HDF5
  std::shared_ptr<NeverWritten> never_written = std::make_shared<NeverWritten>();
  bool is_stream = false;
  bool is_written = false;  ///< whether another process writes it, so that readers see it (SWMR)
  // Where the source files of its contents may lie (InputFiles); symbolic links are resolved.
  std::string folder = {};  ///< its own folder; empty for a stream
  std::string limit = {};   ///< the folder of the file that the user named
  std::shared_ptr<InputFiles> files = {};

  /// The name of the array at `path`, without a leading slash: a path of `paths`, or a name, with
  /// dots or slashes ("blocks/0/q", "blocks.0.q"). Empty if there is none.
  std::string array_at(const std::string& path) const;
};

/// Opens a regular file in place; its format is detected from its first bytes. A stream (a FIFO, a
/// process substitution, "-" for standard input) must be HDF5 and is first read to its end into an
/// unnamed temporary in `tmpdir`. Devices are refused, as some never end, and tables of text
/// without `on_table`. Throws what InputBundle's constructor promises.
InputFile open_input_file(const std::string& file, const std::string& tmpdir,
                          const std::function<void(const TableNote&)>& on_table = {});

}  // namespace attn::io
