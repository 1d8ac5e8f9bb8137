#include "io/contents.hpp"

#include <functional>
#include <optional>
#include <set>
#include <utility>

#include "attnkit/error.hpp"
#include "io/hdf5/group_walk.hpp"
#include "io/hdf5/h5_attribute.hpp"
#include "io/hdf5/h5_type.hpp"
#include "io/hdf5/open_dataset.hpp"
#include "io/input_bundle.hpp"

namespace attn::io {
namespace {

/// Fills in the description if `describe` succeeds, and otherwise records why it failed.
void describe_or_say_why(Item& item, const std::function<void()>& describe) {
  try {
    describe();
  } catch (const Error& error) {
    if (error.failure() != Failure::input) throw;
    item.unreadable = error.what();
  }
}

void describe_dataset(const Object& object, const std::string& address, Index most_values,
                      Item& item) {
  const OpenDataset dataset(object, address);
  item.attributes = h5::attributes(dataset.handle(), address, most_values);
  const h5::Handle type = h5::made(H5Dget_type(dataset.handle()), H5Tclose, "datatype");
  h5::StoredType stored = h5::stored_type(type.get());
  item.dtype = stored.dtype;
  item.type = std::move(stored.description);
  const h5::Handle space = h5::made(H5Dget_space(dataset.handle()), H5Sclose, "dataspace");
  const std::vector<hsize_t> extents = h5::extents_of(space.get());
  item.shape = Shape(extents.begin(), extents.end());
  if (H5Sget_simple_extent_type(space.get()) == H5S_NULL) {
    item.dtype = DType::other;
    item.type = "no values";
  }
}

std::vector<Item> items_below(Object root, const std::string& address, Index most_values) {
  std::vector<Item> items;
  std::set<std::string> seen = {h5::identity(root.handle.get())};
  GroupWalk walk;
  walk.visit = [&](const GroupWalk::Member& member) -> std::optional<Object> {
    std::optional<Object> object;
    Item item;
    item.path = member.path;
    describe_or_say_why(item, [&] {
      object = open_object(member.group.file, member.group.handle.get(), member.link.name,
                           member.address);
      if (object && object->kind == h5::Kind::dataset) {
        describe_dataset(*object, member.address, most_values, item);
      }
    });
    const bool is_group = object && object->kind == h5::Kind::group;
    if (is_group) {
      if (!seen.insert(h5::identity(object->handle.get())).second) return {};
      item.is_group = true;
      describe_or_say_why(item, [&] {
        item.attributes = h5::attributes(object->handle.get(), member.address, most_values);
        h5::links(object->handle.get(), member.address);
      });
    }
    const bool can_be_listed = is_group && item.unreadable.empty();
    const bool is_dataset = object && object->kind == h5::Kind::dataset;
    if (is_group || is_dataset || !item.unreadable.empty()) items.push_back(std::move(item));
    return can_be_listed ? std::move(object) : std::nullopt;
  };
  walk.run(std::move(root), address);
  return items;
}

/// The items of a file of arrays: its skeleton describes all of them but their elements.
std::vector<Item> with_elements(const InputBundle& bundle, const InputBundle::Impl::Root& root,
                                std::vector<Item> items) {
  for (std::string& name : root.arrays_without_path()) {
    items.emplace_back().path = std::move(name);
  }
  for (Item& item : items) {
    if (item.is_group || root.array_name(item.path).empty()) continue;
    describe_or_say_why(item, [&] {
      const ArraySource dataset = bundle.dataset(item.path);
      item.shape = dataset.shape();
      item.dtype = dataset.dtype();
      item.type = dataset.type();
    });
  }
  return items;
}

}  // namespace

std::vector<Item> contents(const InputBundle& bundle, Index most_values) {
  if (!bundle.impl().root) return {};
  const InputBundle::Impl::Root& root = *bundle.impl().root;
  const h5::Lock lock;
  h5::set_subject(root.description());
  std::vector<Item> items = items_below(root.group.again(), root.address(), most_values);
  if (!root.file->arrays) return items;
  return with_elements(bundle.without_named(), root, std::move(items));
}

void require_readable(const std::vector<Item>& items) {
  for (const Item& item : items) {
    if (!item.unreadable.empty()) throw Error(Failure::input, item.unreadable);
  }
}

std::vector<AttributeValue> root_attributes(const InputBundle& bundle, Index most_values) {
  if (!bundle.impl().root) return {};
  const h5::Lock lock;
  h5::set_subject(bundle.description());
  return h5::attributes(bundle.impl().root->id(), bundle.description(), most_values);
}

}  // namespace attn::io
