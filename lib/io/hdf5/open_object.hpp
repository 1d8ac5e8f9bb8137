#pragma once

#include <memory>
#include <optional>
#include <string>

#include "io/input_file.hpp"

namespace attn::io {

/// The object that a path of an input leads to.
struct Object {
  std::shared_ptr<const InputFile>
      file;  ///< the file that holds the object; another file after external links
  h5::Kind kind = h5::Kind::absent;  ///< group, dataset or other
  h5::Handle handle;  ///< open identifier; unset for a dataset, which OpenDataset opens
  h5::Handle parent;  ///< with `name`: the hard link that leads to it
  std::string name;

  /// A second handle to the same object.
  Object again() const;
};

/// Follows `path` from `location` in `file` (from the root if it begins with a slash), link by
/// link. Soft and external links are resolved here and never by HDF5, which would look for files in
/// the current directory. Returns nothing if there is no link of that name. Throws Error(input)
/// naming `address` if the path leads to anything other than a readable object. Called under
/// h5::Lock.
std::optional<Object> open_object(const std::shared_ptr<const InputFile>& file, hid_t location,
                                  const std::string& path, const std::string& address);

/// The target of a soft or external link, as stored in the file. Throws Error(input) naming
/// `address`.
struct LinkTarget {
  H5L_type_t type;
  std::string file;  ///< of an external link
  std::string path;
};
LinkTarget link_target(hid_t group, const std::string& name, const std::string& address);

}  // namespace attn::io
