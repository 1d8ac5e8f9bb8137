#include "io/contents.hpp"

#include <set>

#include "io/groups.hpp"
#include "io/h5_attribute.hpp"
#include "io/h5_type.hpp"
#include "io/hdf5_dataset.hpp"
#include "io/input_bundle.hpp"
#include "io/lookup.hpp"
#include "tensor/error.hpp"

namespace attn::io {
namespace {

class Walk {
 public:
  explicit Walk(Index most_values) : most_values_(most_values) {}

  void visit(hid_t group, const std::string& address, const std::string& path) {
    if (!seen_.insert(h5::identity(group)).second) return;
    for (const h5::Link& link : links_by_number(group, address)) {
      const h5::Kind kind = h5::kind_of(group, link.name);
      const std::string below = path.empty() ? link.name : path + "/" + link.name;
      const std::string name = address + "/" + link.name;
      if (kind == h5::Kind::group) take_group(group, link.name, name, below);
      if (kind == h5::Kind::dataset) take_dataset(group, link.name, name, below);
    }
  }

  std::vector<Item> take() { return std::move(items_); }

 private:
  void take_group(hid_t parent, const std::string& link, const std::string& address,
                  const std::string& path) {
    const h5::Handle group(H5Gopen2(parent, link.c_str(), H5P_DEFAULT), H5Gclose);
    if (!group) refuse(address);
    if (seen_.count(h5::identity(group.get())) > 0) return;
    Item item;
    item.path = path;
    item.is_group = true;
    item.attributes = h5::attributes(group.get(), address, most_values_);
    items_.push_back(std::move(item));
    visit(group.get(), address, path);
  }

  void take_dataset(hid_t parent, const std::string& link, const std::string& address,
                    const std::string& path) {
    const h5::Handle dataset(H5Dopen2(parent, link.c_str(), H5P_DEFAULT), H5Dclose);
    if (!dataset) refuse(address);
    Item item;
    item.path = path;
    item.attributes = h5::attributes(dataset.get(), address, most_values_);
    const h5::Handle type = h5::made(H5Dget_type(dataset.get()), H5Tclose, "datatype");
    h5::StoredType stored = h5::stored_type(type.get());
    item.dtype = stored.dtype;
    item.type = std::move(stored.description);
    const h5::Handle space = h5::made(H5Dget_space(dataset.get()), H5Sclose, "dataspace");
    const std::vector<hsize_t> extents = h5::extents_of(space.get());
    item.shape.assign(extents.begin(), extents.end());
    if (H5Sget_simple_extent_type(space.get()) == H5S_NULL) {
      item.dtype = DType::other;
      item.type = "no values";
    }
    items_.push_back(std::move(item));
  }

  [[noreturn]] static void refuse(const std::string& address) {
    throw Error(Failure::input, address + " cannot be opened: " + h5::last_reason().text);
  }

  Index most_values_;
  std::set<std::string> seen_;
  std::vector<Item> items_;
};

std::vector<Item> of_arrays(const InputBundle& bundle, const InputBundle::Impl::Root& root) {
  std::vector<Item> items;
  for (const std::string& name : root.names()) {
    const InputDataset dataset = bundle.dataset(name);
    Item item;
    item.path = name;
    item.shape = dataset.shape();
    item.dtype = dataset.dtype();
    item.type = attn::name(dataset.dtype());
    items.push_back(std::move(item));
  }
  return items;
}

}  // namespace

std::vector<Item> contents(const InputBundle& bundle, Index most_values) {
  if (!bundle.impl().root) return {};
  const InputBundle::Impl::Root& root = *bundle.impl().root;
  if (!root.group) return of_arrays(bundle, root);
  const h5::Lock lock;
  h5::set_subject(root.description());
  Walk walk(most_values);
  walk.visit(root.group.get(), root.file->label + ":" + (root.path == "/" ? "" : root.path), "");
  return walk.take();
}

std::vector<AttributeValue> root_attributes(const InputBundle& bundle, Index most_values) {
  if (!bundle.impl().root || !bundle.impl().root->group) return {};
  const h5::Lock lock;
  h5::set_subject(bundle.description());
  return h5::attributes(bundle.impl().root->group.get(), bundle.description(), most_values);
}

}  // namespace attn::io
