#include <utility>

#include "attnkit/error.hpp"
#include "io/arrays/array_dataset.hpp"
#include "io/direct_dataset.hpp"
#include "io/hdf5/lookup.hpp"
#include "io/input_bundle.hpp"

namespace attn::io {

std::shared_ptr<const ArraySource::Impl> open_array(const InputFile& file, const std::string& path,
                                                    const std::string& name,
                                                    const std::string& selection_text,
                                                    const std::vector<SliceItem>& selection) {
  const ArrayFile& arrays = *file.arrays;
  std::string inside = path == "/" ? name : path.substr(1);
  if (arrays.is_single()) {
    if (path != "/") {
      throw Error(Failure::input,
                  file.label + " holds one array without a name, expected one called " + inside,
                  "leave out the part after the file name");
    }
    inside.clear();
  } else if (!arrays.has(inside)) {
    refuse_missing(file.label, h5::Kind::dataset, inside, arrays.names());
  }
  const std::string address = array_address(file.label, inside);
  return std::make_shared<ArrayDataset>(arrays.array(inside, address), name,
                                        address + selection_text, selection);
}

std::string InputBundle::Impl::Root::description() const { return address_text(file->label, path); }

std::string InputBundle::Impl::Root::address_of(const std::string& name) const {
  return file->label + ":" + joined_path(path, name);
}

std::optional<Object> InputBundle::Impl::Root::find(const std::string& name) const {
  // An empty name would lead to the group itself.
  if (name.empty()) return {};
  return open_object(group->file, id(), name, address_of(name));
}

std::string InputBundle::Impl::Root::array_name(const std::string& name) const {
  if (!file->arrays) return {};
  const std::string whole = path == "/" ? name : joined_path(path, name).substr(1);
  return file->arrays->has(whole) ? whole : std::string();
}

bool InputBundle::Impl::Root::has(const std::string& name) const {
  if (!group) return file->arrays->has(name);
  const h5::Lock lock;
  const std::optional<Object> found = find(name);
  if (found && found->kind != h5::Kind::dataset) {
    refuse_kind(address_of(name), found->kind, h5::Kind::dataset);
  }
  return found.has_value();
}

bool InputBundle::Impl::Root::is_dataset(const std::string& name) const {
  if (!group) return file->arrays->has(name);
  const h5::Lock lock;
  const std::optional<Object> found = find(name);
  return found && found->kind == h5::Kind::dataset;
}

std::vector<std::string> InputBundle::Impl::Root::names() const {
  if (!group) return file->arrays->names();
  const h5::Lock lock;
  return names_of(h5::Kind::dataset, *group, address());
}

std::shared_ptr<const ArraySource::Impl> InputBundle::Impl::Root::dataset(
    const std::string& stored, const std::string& name) const {
  const std::string array = array_name(stored);
  if (!array.empty()) return open_array(*file, "/" + array, name, "", {});
  if (!group) return nullptr;
  const h5::Lock lock;
  const std::string where = address_of(stored);
  const std::optional<Object> found = find(stored);
  if (!found) return nullptr;
  if (found->kind != h5::Kind::dataset) refuse_kind(where, found->kind, h5::Kind::dataset);
  return std::make_shared<DirectDataset>(found->file, OpenDataset(*found, where), name, where,
                                         std::vector<SliceItem>{});
}

InputBundle::Impl::Root InputBundle::Impl::Root::below(const std::string& below_path) const {
  if (!group) throw Error(Failure::input, file->label + " has no groups");
  const h5::Lock lock;
  const std::string whole = joined_path(path, below_path);
  std::optional<Object> found = find(below_path);
  if (found && found->kind != h5::Kind::group) {
    refuse_kind(address_text(file->label, whole), found->kind, h5::Kind::group);
  }
  if (!found) found = require_object(file, whole, h5::Kind::group);
  return Root{file, whole, std::move(found)};
}

InputBundle::Impl::Root InputBundle::Impl::Root::again() const {
  Root same{file, path, {}};
  if (!group) return same;
  const h5::Lock lock;
  same.group = group->again();
  return same;
}

}  // namespace attn::io
