#include "io/hdf5/copy.hpp"

#include <algorithm>
#include <functional>
#include <set>

#include "attnkit/error.hpp"
#include "io/copy_array.hpp"
#include "io/hdf5/copy_dataset.hpp"
#include "io/hdf5/copy_objects.hpp"
#include "io/hdf5/hdf5_dataset.hpp"
#include "io/hdf5/lookup.hpp"
#include "io/hdf5/output_attribute.hpp"
#include "io/result_mark.hpp"

namespace attn::io {
namespace {

void copy_one(const ArraySource::Impl& dataset, const std::string& name, OutputFile& output) {
  const auto* stored = dynamic_cast<const Hdf5Dataset*>(&dataset);
  if (stored == nullptr) {
    copy_array(dataset, output, name);
  } else if (stored->sliced()) {
    copy_slice(*stored, output, name);
  } else {
    copy_dataset(stored->stored(), output, {output.root(), name, name});
  }
}

// A result of another bundle is an input here.
void remove_mark(OutputFile& output, const std::string& name) {
  h5::Handle dataset = output.own(H5Dopen2(output.root(), name.c_str(), H5P_DEFAULT), H5Dclose,
                                  output.address_of(name));
  remove_attribute(output, dataset.get(), result_mark);
  output.close(dataset, output.address_of(name));
}

bool lies_in_one_of(const std::set<std::string>& groups, const std::string& path) {
  for (std::size_t end = path.find('/'); end != std::string::npos; end = path.find('/', end + 1)) {
    if (groups.count(path.substr(0, end)) != 0) return true;
  }
  return false;
}

/// The arrays below the addressed group, with the attributes that the file's metadata gives them.
void copy_arrays(const InputBundle::Impl::Root& root, OutputFile& output,
                 const std::function<bool(const std::string&)>& skip) {
  const std::string before = root.path == "/" ? "" : root.path.substr(1) + "/";
  for (const auto& [path, array] : root.file->paths) {
    if (!path.starts_with(before)) continue;
    const std::string name = path.substr(before.size());
    if (skip(name) || (before.empty() && skip(array))) continue;
    copy_array(*root.dataset(name, name), output, name);
    const std::string address = root.address_of(name);
    const h5::Handle described(H5Dopen2(root.id(), name.c_str(), H5P_DEFAULT), H5Dclose);
    h5::Handle copied = output.own(H5Dopen2(output.root(), name.c_str(), H5P_DEFAULT), H5Dclose,
                                   output.address_of(name));
    copy_attributes(described.get(), address, output, copied.get(),
                    [](const std::string&) { return false; });
    output.close(copied, output.address_of(name));
  }
}

}  // namespace

void copy_bundle(const InputBundle::Impl& input, OutputFile& output,
                 const std::vector<std::string>& without) {
  const std::set<std::string> left_out(without.begin(), without.end());
  const auto excluded = [&](const std::string& path) { return left_out.count(path) != 0; };
  const auto is_there = [&](const std::string& path) { return h5::linked(output.root(), path); };
  if (input.root) {
    const InputBundle::Impl::Root& root = *input.root;
    const auto skip = [&](const std::string& path) {
      return excluded(path) || lies_in_one_of(left_out, path) || input.named.count(path) != 0;
    };
    ObjectCopier copier(output, root.path == "/", [&](const std::string& path) {
      return skip(path) || root.file->paths.count(joined_path(root.path, path).substr(1)) != 0;
    });
    copier.copy_members(root.group, root.address());
    if (root.file->arrays) {
      copy_arrays(root, output,
                  [&](const std::string& path) { return skip(path) || is_there(path); });
      for (const std::string& name : root.arrays_without_path()) {
        if (!skip(name)) copy_array(*root.dataset(name, name), output, name);
      }
    }
    copy_root_attributes(input, output, output.root());
  }
  copy_named(input, output, "", without);
}

void copy_named(const InputBundle::Impl& input, OutputFile& output, const std::string& path,
                const std::vector<std::string>& without) {
  for (const auto& [name, dataset] : input.named) {
    if (std::find(without.begin(), without.end(), name) != without.end()) continue;
    const std::string target = path.empty() ? name : path + "/" + name;
    if (h5::linked(output.root(), target)) continue;
    copy_one(*dataset, target, output);
    remove_mark(output, target);
  }
}

void copy_attributes_of_dataset(const InputBundle& input, const std::string& path,
                                OutputFile& output, hid_t object, bool axes) {
  const auto& root = input.impl().root;
  if (!root) return;
  const std::optional<Object> found = root->find(path);
  const std::string address = root->address_of(path);
  if (!found || found->kind != h5::Kind::dataset) {
    throw Error(Failure::input, "there is no dataset " + address);
  }
  const h5::Handle dataset(H5Dopen2(found->parent.get(), found->name.c_str(), H5P_DEFAULT),
                           H5Dclose);
  copy_attributes(dataset.get(), address, output, object, [&](const std::string& name) {
    return !axes && (name == "DIMENSION_LABELS" || name == "DIMENSION_LIST");
  });
}

void copy_root_attributes(const InputBundle::Impl& input, OutputFile& output, hid_t object) {
  if (!input.root) return;
  copy_attributes(input.root->id(), input.root->description(), output, object,
                  [&](const std::string& name) { return H5Aexists(object, name.c_str()) > 0; });
}

}  // namespace attn::io
