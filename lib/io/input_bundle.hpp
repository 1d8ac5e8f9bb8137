#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "io/hdf5/open_object.hpp"
#include "io/input.hpp"
#include "tensor/array_source.hpp"

namespace attn::io {

struct InputBundle::Impl {
  /// The group that INPUT addresses.
  struct Root {
    std::shared_ptr<const InputFile> file;  ///< the file that the user named
    std::string path;                       ///< "/" or "/layer3"
    Object group;

    hid_t id() const { return group.handle.get(); }

    std::string description() const;                        ///< "dump.h5" or "dump.h5:/layer3"
    std::string address_of(const std::string& name) const;  ///< "dump.h5:/layer3/q"
    /// The prefix before a slash and a name: "dump.h5:" or "dump.h5:/layer3".
    std::string address() const { return file->label + ":" + (path == "/" ? "" : path); }

    /// The object called `name`, or with slashes in place of dots; empty if there is no such link.
    /// Throws Error(input) if its target cannot be opened.
    std::optional<Object> find(const std::string& name) const;
    /// The name of the array called `name` here, in a file of arrays; empty if there is none.
    std::string array_name(const std::string& name) const;
    bool has(const std::string& name) const;
    bool is_dataset(const std::string& name) const;
    std::vector<std::string> names() const;  ///< of its datasets, sorted
    /// The names of the arrays that can have no path (array_paths): they count to the root.
    std::vector<std::string> arrays_without_path() const;
    /// The dataset called `stored` here and `name` by tools. Null if there is no link of that name;
    /// throws Error(input) if it is not a dataset that can be opened.
    std::shared_ptr<const ArraySource::Impl> dataset(const std::string& stored,
                                                     const std::string& name) const;
    /// A group below, such as "text/layer3". Throws Error(input) if it does not exist.
    Root below(const std::string& below_path) const;
    /// A second handle to the same group.
    Root again() const;
  };
  std::optional<Root> root;
  std::map<std::string, std::shared_ptr<const ArraySource::Impl>> named;
  bool of_host = false;  ///< whether the named datasets are arrays of the program
  std::map<std::string, std::string> renamed;  ///< from the tool's name to the stored name
  /// Requested names of this bundle and of its groups; protected by the lock.
  std::shared_ptr<std::set<std::string>> asked = std::make_shared<std::set<std::string>>();
  /// The same for attributes.
  std::shared_ptr<std::set<std::string>> asked_attributes =
      std::make_shared<std::set<std::string>>();

  const std::string& stored_name(const std::string& name) const {
    const auto found = renamed.find(name);
    return found == renamed.end() ? name : found->second;
  }
};

/// The whole of an open HDF5 file.
InputBundle bundle_in(const std::shared_ptr<const InputFile>& file);

/// The array `stored` of a file that is not HDF5 (empty for a single array), called `name` by
/// tools.
std::shared_ptr<const ArraySource::Impl> open_array(const InputFile& file,
                                                    const std::string& stored,
                                                    const std::string& name,
                                                    const std::string& selection_text,
                                                    const std::vector<SliceItem>& selection);

}  // namespace attn::io
