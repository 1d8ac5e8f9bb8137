#include <utility>

#include "io/array_dataset.hpp"
#include "io/hdf5_dataset.hpp"
#include "io/input_bundle.hpp"
#include "io/lookup.hpp"
#include "tensor/error.hpp"

namespace attn::io {

std::shared_ptr<const InputDataset::Impl> open_array(const InputFile& file, const std::string& path,
                                                     const std::string& name,
                                                     const std::string& selection_text,
                                                     const std::vector<SliceItem>& selection) {
  const ArrayFile& arrays = *file.arrays;
  std::string inside = path == "/" ? name : path.substr(1);
  if (arrays.is_single()) {
    if (path != "/") {
      throw Error(Failure::input,
                  file.label + " is one array without a name, expected one called " + inside,
                  "leave out what follows its name");
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

bool InputBundle::Impl::Root::has(const std::string& name) const {
  if (file->arrays) return file->arrays->has(name);
  const h5::Lock lock;
  return h5::kind_of(group.get(), name) == h5::Kind::dataset;
}

std::vector<std::string> InputBundle::Impl::Root::names() const {
  if (file->arrays) return file->arrays->names();
  const h5::Lock lock;
  return names_of(h5::Kind::dataset, group.get(), description());
}

std::shared_ptr<const InputDataset::Impl> InputBundle::Impl::Root::dataset(
    const std::string& stored, const std::string& name) const {
  if (file->arrays) {
    if (!file->arrays->has(stored)) return nullptr;
    return open_array(*file, "/" + stored, name, "", {});
  }
  const h5::Lock lock;
  if (h5::kind_of(group.get(), stored) != h5::Kind::dataset) {
    if (h5::linked(group.get(), stored)) {
      refuse_path(*file, joined_path(path, stored), h5::Kind::dataset);
    }
    return nullptr;
  }
  h5::Handle handle = open_dataset(group.get(), stored);
  if (!handle) {
    throw Error(Failure::input,
                address_of(stored) + " cannot be opened: " + h5::last_reason().text);
  }
  return std::make_shared<Hdf5Dataset>(file, std::move(handle), name, address_of(stored),
                                       std::vector<SliceItem>{});
}

InputBundle::Impl::Root InputBundle::Impl::Root::below(const std::string& below_path) const {
  if (file->arrays) throw Error(Failure::input, file->label + " has no groups");
  const h5::Lock lock;
  Root found{file, joined_path(path, below_path), {}};
  if (h5::kind_of(group.get(), below_path) == h5::Kind::group) {
    found.group = h5::Handle(H5Gopen2(group.get(), below_path.c_str(), H5P_DEFAULT), H5Gclose);
  }
  if (!found.group) refuse_path(*file, found.path, h5::Kind::group);
  return found;
}

InputBundle::Impl::Root InputBundle::Impl::Root::again() const {
  Root same{file, path, {}};
  if (!group) return same;
  const h5::Lock lock;
  h5::require(H5Iinc_ref(group.get()) < 0 ? -1 : 0, "group");
  same.group = h5::Handle(group.get(), H5Gclose);
  return same;
}

}  // namespace attn::io
