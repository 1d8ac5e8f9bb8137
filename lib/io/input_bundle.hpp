#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "io/hdf5/open_object.hpp"
#include "io/input.hpp"
#include "io/input_dataset.hpp"

namespace attn::io {

struct InputBundle::Impl {
  /// The group that INPUT addresses, or all of a file of arrays.
  struct Root {
    std::shared_ptr<const InputFile> file;  ///< that the user named
    std::string path;                       ///< "/" or "/layer3"
    std::optional<Object> group;            ///< none in a file of arrays

    hid_t id() const { return group->handle.get(); }

    std::string description() const;                        ///< "dump.h5" or "dump.h5:/layer3"
    std::string address_of(const std::string& name) const;  ///< "dump.h5:/layer3/q"
    /// What stands before a slash and a name: "dump.h5:" or "dump.h5:/layer3".
    std::string address() const { return file->label + ":" + (path == "/" ? "" : path); }

    /// What is called `name`; nothing where there is no link of that name. Error(input) where it
    /// leads to nothing that can be opened.
    std::optional<Object> find(const std::string& name) const;
    bool has(const std::string& name) const;
    bool is_dataset(const std::string& name) const;
    std::vector<std::string> names() const;  ///< of its datasets, sorted
    /// The dataset called `stored` here and `name` by tools. Null where there is no link of that
    /// name; Error(input) where it is not a dataset that can be opened.
    std::shared_ptr<const InputDataset::Impl> dataset(const std::string& stored,
                                                      const std::string& name) const;
    /// A group below, "text/layer3". Throws Error(input) where there is none.
    Root below(const std::string& below_path) const;
    /// The same group once more.
    Root again() const;
  };
  std::optional<Root> root;
  std::map<std::string, std::shared_ptr<const InputDataset::Impl>> named;
  std::map<std::string, std::string> renamed;  ///< from what tools say to what is stored
  /// Names that were asked for, of this bundle and of its groups; under the lock.
  std::shared_ptr<std::set<std::string>> asked = std::make_shared<std::set<std::string>>();

  const std::string& stored_name(const std::string& name) const {
    const auto found = renamed.find(name);
    return found == renamed.end() ? name : found->second;
  }
};

/// An array of a file that is no HDF5 file. `path` is that of an address: the name of the array
/// after a slash, or the slash alone, where `name` is meant.
std::shared_ptr<const InputDataset::Impl> open_array(const InputFile& file, const std::string& path,
                                                     const std::string& name,
                                                     const std::string& selection_text,
                                                     const std::vector<SliceItem>& selection);

}  // namespace attn::io
