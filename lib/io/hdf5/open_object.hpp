#pragma once

#include <memory>
#include <optional>
#include <string>

#include "io/input_file.hpp"

namespace attn::io {

/// What a path of an input leads to.
struct Object {
  std::shared_ptr<const InputFile> file;  ///< in which it lies: another one behind external links
  h5::Kind kind = h5::Kind::absent;       ///< group, dataset or other
  h5::Handle handle;                      ///< open; none for a dataset, which OpenDataset opens
  h5::Handle parent;                      ///< with `name`: the hard link that leads to it
  std::string name;

  /// The same object once more.
  Object again() const;
};

/// Follows `path` from `location` in `file` (from the root where it begins with a slash), one link
/// after the other: soft and external links are resolved here and never by HDF5, which would look
/// for files in the current directory. Nothing where there is no link of that name; whatever else
/// does not lead to an object that can be read is refused by an Error(input) that names `address`.
/// Called under h5::Lock.
std::optional<Object> open_object(const std::shared_ptr<const InputFile>& file, hid_t location,
                                  const std::string& path, const std::string& address);

/// Where a soft or external link leads, as it stands there. Throws Error(input) naming `address`.
struct LinkTarget {
  H5L_type_t type;
  std::string file;  ///< of an external link
  std::string path;
};
LinkTarget link_target(hid_t group, const std::string& name, const std::string& address);

}  // namespace attn::io
