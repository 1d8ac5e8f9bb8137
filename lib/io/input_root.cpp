#include <algorithm>
#include <filesystem>
#include <optional>
#include <set>
#include <utility>

#include "attnkit/error.hpp"
#include "io/arrays/array_dataset.hpp"
#include "io/arrays/float8_dataset.hpp"
#include "io/arrays/scale_blocks.hpp"
#include "io/direct_dataset.hpp"
#include "io/hdf5/lookup.hpp"
#include "io/input_bundle.hpp"
#include "io/input_files.hpp"

namespace attn::io {

namespace {

/// The array called `stored`; a part of a checkpoint that holds it becomes a source.
StoredArray stored_array(const InputFile& file, const std::string& stored,
                         const std::string& address) {
  StoredArray array = file.arrays->array(stored, address);
  if (const std::string part = file.arrays->part_of(stored); !part.empty()) {
    const std::string real = std::filesystem::weakly_canonical(part).string();
    file.files->followed({FollowedSource::Kind::checkpoint_part, address, {real}});
  }
  return array;
}

/// The scales of numbers in 8 bits, which all checkpoints multiply by, inverse or not by name.
std::optional<Float8Scales> scales_of(const InputFile& file, const std::string& stored) {
  for (const char* const ending : {"_scale_inv", "_scale"}) {
    const std::string name = stored + ending;
    if (!file.arrays->has(name)) continue;
    const std::string address = array_address(file.label, name);
    // The file may be a symbolic link: config.json lies beside the link.
    const std::string config = file.label.substr(0, file.label.rfind('/') + 1) + "config.json";
    const auto stated = [&file, address, config] {
      if (file.files->ignores_config()) return Shape();
      Shape blocks = stated_blocks(config);
      if (!blocks.empty()) {
        const std::string real = std::filesystem::weakly_canonical(config).string();
        file.files->followed({FollowedSource::Kind::checkpoint_part, address, {real}});
      }
      return blocks;
    };
    return Float8Scales{stored_array(file, name, address), address, stated};
  }
  return std::nullopt;
}

}  // namespace

std::shared_ptr<const ArraySource::Impl> open_array(const InputFile& file,
                                                    const std::string& stored,
                                                    const std::string& name,
                                                    const std::string& selection_text,
                                                    const std::vector<SliceItem>& selection) {
  const std::string address = array_address(file.label, stored);
  StoredArray array = stored_array(file, stored, address);
  const std::string shown = address + selection_text;
  if (Float8Dataset::reads(array)) {
    return std::make_shared<Float8Dataset>(std::move(array), scales_of(file, stored), name, shown,
                                           selection);
  }
  return std::make_shared<ArrayDataset>(std::move(array), name, shown, selection);
}

std::string InputBundle::Impl::Root::description() const { return address_text(file->label, path); }

std::string InputBundle::Impl::Root::address_of(const std::string& name) const {
  return file->label + ":" + joined_path(path, name);
}

std::optional<Object> InputBundle::Impl::Root::find(const std::string& name) const {
  // An empty name would lead to the group itself.
  if (name.empty()) return {};
  return open_object(group.file, id(), path_there(group, name, h5::Kind::dataset, address()),
                     address_of(name));
}

std::string InputBundle::Impl::Root::array_name(const std::string& name) const {
  return file->array_at(joined_path(path, name).substr(1));
}

bool InputBundle::Impl::Root::has(const std::string& name) const {
  if (!array_name(name).empty()) return true;
  // A group of a flat file is only part of a name.
  if (file->flat) return false;
  const h5::Lock lock;
  const std::optional<Object> found = find(name);
  if (found && found->kind != h5::Kind::dataset) {
    refuse_kind(address_of(name), found->kind, h5::Kind::dataset);
  }
  return found.has_value();
}

bool InputBundle::Impl::Root::is_dataset(const std::string& name) const {
  if (!array_name(name).empty()) return true;
  const h5::Lock lock;
  const std::optional<Object> found = find(name);
  return found && found->kind == h5::Kind::dataset;
}

std::vector<std::string> InputBundle::Impl::Root::names() const {
  const h5::Lock lock;
  std::vector<std::string> names = names_of(h5::Kind::dataset, group, address());
  for (std::string& name : arrays_without_path()) names.push_back(std::move(name));
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<std::string> InputBundle::Impl::Root::arrays_without_path() const {
  if (path != "/" || !file->flat) return {};
  std::vector<std::string> all = file->arrays->names();
  std::set<std::string> placed;
  for (const auto& [at, name] : file->paths) placed.insert(name);
  std::erase_if(all, [&](const std::string& name) { return placed.count(name) != 0; });
  return all;
}

std::shared_ptr<const ArraySource::Impl> InputBundle::Impl::Root::dataset(
    const std::string& stored, const std::string& name) const {
  const std::string array = array_name(stored);
  if (!array.empty()) return open_array(*file, array, name, "", {});
  if (file->flat) return nullptr;
  const h5::Lock lock;
  const std::string where = address_of(stored);
  const std::optional<Object> found = find(stored);
  if (!found) return nullptr;
  if (found->kind != h5::Kind::dataset) refuse_kind(where, found->kind, h5::Kind::dataset);
  return std::make_shared<DirectDataset>(found->file, OpenDataset(*found, where), name, where,
                                         std::vector<SliceItem>{});
}

InputBundle::Impl::Root InputBundle::Impl::Root::below(const std::string& below_path) const {
  const h5::Lock lock;
  const std::string there = path_there(group, below_path, h5::Kind::group, address());
  const std::string whole = joined_path(path, there);
  std::optional<Object> found = open_object(group.file, id(), there, address_of(below_path));
  if (found && found->kind != h5::Kind::group) {
    refuse_kind(address_text(file->label, whole), found->kind, h5::Kind::group);
  }
  if (!found) found = require_object(file, whole, h5::Kind::group);
  return Root{file, whole, std::move(*found)};
}

InputBundle::Impl::Root InputBundle::Impl::Root::again() const {
  const h5::Lock lock;
  return Root{file, path, group.again()};
}

}  // namespace attn::io
