#include "io/input.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include "attnkit/error.hpp"
#include "io/direct_dataset.hpp"
#include "io/hdf5/groups.hpp"
#include "io/hdf5/h5_attribute.hpp"
#include "io/hdf5/lookup.hpp"
#include "io/input_bundle.hpp"
#include "io/input_files.hpp"
#include "io/map_hints.hpp"

namespace attn::io {
namespace {

/// Opens the files and datasets of addresses.
class Opener {
 public:
  explicit Opener(const InputBundle::Options& options)
      : files_(std::make_shared<InputFiles>(options)) {}

  InputBundle::Impl::Root root(const Address& address) {
    const std::shared_ptr<const InputFile> from = file(address.file);
    if (!from->handle) refuse_single(address);
    const h5::Lock lock;
    const std::string path = path_in(from, address, h5::Kind::group);
    const std::string description = address_text(from->label, path);
    const h5::Kind kind = kind_at(from, path);
    if (kind != h5::Kind::group && !from->array_at(path.substr(1)).empty()) refuse_single(address);
    if (kind == h5::Kind::dataset) {
      throw Error(Failure::input, description + " is a dataset, expected a file or a group",
                  "take a single dataset with -i NAME=" + address.text);
    }
    return {from, path, require_object(from, path, h5::Kind::group)};
  }

  /// If the address leads to a group, its dataset `name` is meant.
  std::shared_ptr<const ArraySource::Impl> dataset(const std::string& name,
                                                   const Address& address) {
    const std::shared_ptr<const InputFile> from = file(address.file);
    const std::string selected =
        address.selection.empty() ? "" : address.text.substr(address.text.rfind('['));
    if (!from->handle) {
      require_no_path(*from, address);
      return open_array(*from, "", name, selected, address.selection);
    }
    const h5::Lock lock;
    std::string array = from->array_at(address.path.substr(1));
    std::string path = path_in(from, address, h5::Kind::dataset);
    if (array.empty() && kind_at(from, path) != h5::Kind::dataset) {
      const std::string group = path_in(from, address, h5::Kind::group);
      if (kind_at(from, group) == h5::Kind::group) path = joined_path(group, name);
      array = from->array_at(path.substr(1));
    }
    if (!array.empty()) return open_array(*from, array, name, selected, address.selection);
    const Object object = require_object(from, path, h5::Kind::dataset);
    const std::string text = address_text(from->label, path);
    return std::make_shared<DirectDataset>(object.file, OpenDataset(object, text), name,
                                           text + selected, address.selection);
  }

 private:
  static std::string path_in(const std::shared_ptr<const InputFile>& from, const Address& address,
                             h5::Kind kind) {
    const Object root = require_object(from, "/", h5::Kind::group);
    return path_there(root, address.path, kind, from->label + ":");
  }

  static h5::Kind kind_at(const std::shared_ptr<const InputFile>& from, const std::string& path) {
    const auto found = open_object(from, from->handle.get(), path, address_text(from->label, path));
    return found ? found->kind : h5::Kind::absent;
  }

  [[noreturn]] static void refuse_single(const Address& address) {
    throw Error(Failure::input, address.text + " is a single array, expected a bundle",
                "give it a name: -i NAME=" + address.text + " (tensor-convert: without -i)");
  }

  static void require_no_path(const InputFile& from, const Address& address) {
    if (address.path == "/") return;
    throw Error(Failure::input,
                from.label + " holds one array without a name, expected one called " +
                    address.path.substr(1),
                "leave out the part after the file name");
  }

  std::shared_ptr<const InputFile> file(const std::string& name) {
    opened_.push_back(files_->named(name));
    return opened_.back();
  }

  std::shared_ptr<InputFiles> files_;
  /// Kept until all addresses are opened, since a stream cannot be read again.
  std::vector<std::shared_ptr<const InputFile>> opened_;
};

Address parse_input(const std::string& text) {
  Address address = parse_address(text);
  if (!address.selection.empty()) {
    throw Error(Failure::usage, text + ": INPUT is a file or a group, which cannot be sliced",
                "slice a dataset with -i NAME=" + text);
  }
  return address;
}

void refuse_second_stream(const std::optional<Address>& input,
                          const std::vector<std::pair<std::string, Address>>& named) {
  const auto streams = std::count_if(named.begin(), named.end(),
                                     [](const auto& item) { return item.second.file == "-"; });
  if (streams + (input && input->file == "-" ? 1 : 0) > 1) {
    throw Error(Failure::usage, "standard input can be used for only one input",
                "write the stream to a file first, and address that");
  }
}

/// hint_on_names for a group, or for the first group below it for which there is one.
std::string hint_on_group(const std::string& name, const Object& group,
                          const std::string& address) try {
  std::string hint = hint_on_names(name, names_of(h5::Kind::dataset, group, address));
  const std::vector<std::string> below = all_groups(group, address);
  for (auto path = below.begin(); hint.empty() && path != below.end(); ++path) {
    const auto found = open_object(group.file, group.handle.get(), *path, address);
    if (found) hint = hint_on_names(name, names_of(h5::Kind::dataset, *found, address));
  }
  return hint;
} catch (const Error&) {
  return "";  // a link that leads nowhere does not hide which name is missing
}

/// Throws with a list of the existing datasets, including those named by -i. `name` is read from
/// the dataset `stored_name`.
[[noreturn]] void refuse_dataset(const InputBundle::Impl& bundle, const std::string& name,
                                 const std::string& stored_name, const std::string& description) {
  const auto hint = [&](const auto& hint_on) {
    std::string found = hint_on(name);
    return found.empty() ? hint_on(stored_name) : found;
  };
  if (bundle.root && bundle.named.empty()) {
    const Object& group = bundle.root->group;
    refuse_missing(description, h5::Kind::dataset, stored_name, group,
                   hint([&](const std::string& missing) {
                     return hint_on_group(missing, group, description);
                   }));
  }
  std::set<std::string> names;
  for (const auto& [given, dataset] : bundle.named) names.insert(given);
  if (bundle.root) {
    for (std::string& stored : bundle.root->names()) names.insert(std::move(stored));
  }
  const std::vector<std::string> there(names.begin(), names.end());
  refuse_missing(description, h5::Kind::dataset, stored_name, there,
                 hint([&](const std::string& missing) { return hint_on_names(missing, there); }));
}

}  // namespace

InputBundle::InputBundle(const Options& options) : impl_(std::make_unique<Impl>()) {
  std::optional<Address> input;
  if (options.input) input = parse_input(*options.input);
  std::vector<std::pair<std::string, Address>> named;
  for (const auto& [name, text] : options.named) {
    auto held = options.host ? options.host->input(name) : nullptr;
    if (held) {
      impl_->named[name] = std::move(held);
    } else {
      named.emplace_back(name, parse_address(text));
    }
  }
  impl_->of_host = options.host != nullptr;
  refuse_second_stream(input, named);
  Opener opener(options);
  if (input) impl_->root = opener.root(*input);
  for (const auto& [name, address] : named) impl_->named[name] = opener.dataset(name, address);
  for (const auto& [name, stored] : options.renamed) impl_->renamed[name] = stored;
}

InputBundle bundle_in(const std::shared_ptr<const InputFile>& file) {
  const h5::Lock lock;
  auto impl = std::make_unique<InputBundle::Impl>();
  impl->root = InputBundle::Impl::Root{file, "/", require_object(file, "/", h5::Kind::group)};
  return InputBundle(std::move(impl));
}

InputBundle::InputBundle(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
InputBundle::~InputBundle() = default;
InputBundle::InputBundle(InputBundle&&) noexcept = default;
InputBundle& InputBundle::operator=(InputBundle&&) noexcept = default;

bool InputBundle::has(const std::string& name) const {
  const h5::Lock lock;
  impl_->asked->insert(name);
  return impl_->named.count(name) != 0 ||
         (impl_->root && impl_->root->has(impl_->stored_name(name)));
}

bool InputBundle::is_dataset(const std::string& path) const {
  const h5::Lock lock;
  return impl_->named.count(path) != 0 ||
         (impl_->root && impl_->root->is_dataset(impl_->stored_name(path)));
}

ArraySource InputBundle::dataset(const std::string& name) const {
  const h5::Lock lock;
  impl_->asked->insert(name);
  const auto found = impl_->named.find(name);
  if (found != impl_->named.end()) return ArraySource(found->second);
  const std::string& stored_name = impl_->stored_name(name);
  std::shared_ptr<const ArraySource::Impl> stored;
  if (impl_->root) stored = impl_->root->dataset(stored_name, name);
  if (!stored) refuse_dataset(*impl_, name, stored_name, description());
  return ArraySource(std::move(stored));
}

std::vector<std::string> InputBundle::unused_names() const {
  const h5::Lock lock;
  std::vector<std::string> unused;
  for (const auto& [name, dataset] : impl_->named) {
    if (impl_->asked->count(name) == 0) unused.push_back(name);
  }
  for (const auto& [name, stored] : impl_->renamed) {
    if (impl_->asked->count(name) == 0) unused.push_back(name);
  }
  return unused;
}

void InputBundle::require_renamed() const {
  const h5::Lock lock;
  for (const auto& [name, stored] : impl_->renamed) {
    const bool there = impl_->root && impl_->root->dataset(stored, name) != nullptr;
    if (!there) refuse_dataset(*impl_, name, stored, description());
  }
}

std::vector<std::string> InputBundle::names() const {
  std::set<std::string> all;
  for (const auto& [name, dataset] : impl_->named) all.insert(name);
  if (impl_->root) {
    for (std::string& name : impl_->root->names()) all.insert(std::move(name));
  }
  return {all.begin(), all.end()};
}

std::optional<double> InputBundle::number_attribute(const std::string& name) const {
  const h5::Lock lock;
  impl_->asked_attributes->insert(name);
  if (!impl_->root) return {};
  return h5::number_attribute(impl_->root->id(), name, description());
}

std::optional<std::string> InputBundle::text_attribute(const std::string& name) const {
  const h5::Lock lock;
  impl_->asked_attributes->insert(name);
  if (!impl_->root) return {};
  return h5::text_attribute(impl_->root->id(), name, description());
}

std::vector<std::string> InputBundle::attribute_names() const {
  const h5::Lock lock;
  if (!impl_->root) return {};
  return h5::attribute_names(impl_->root->id(), description());
}

bool InputBundle::has_attribute(const std::string& name) const {
  const h5::Lock lock;
  impl_->asked_attributes->insert(name);
  const std::vector<std::string> names = attribute_names();
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::vector<std::string> InputBundle::requested_datasets() const {
  const h5::Lock lock;
  std::vector<std::string> found;
  for (const std::string& name : *impl_->asked) {
    const bool is_own = impl_->named.count(name) == 0;
    if (is_own && is_dataset(name)) found.push_back(name);
  }
  return found;
}

std::vector<std::string> InputBundle::requested_attributes() const {
  const h5::Lock lock;
  std::vector<std::string> found;
  for (std::string& name : attribute_names()) {
    if (impl_->asked_attributes->count(name) != 0) found.push_back(std::move(name));
  }
  return found;
}

std::vector<std::string> InputBundle::group_names() const {
  const h5::Lock lock;
  if (!impl_->root) return {};
  return names_of(h5::Kind::group, impl_->root->group, impl_->root->address());
}

std::vector<std::string> InputBundle::groups_like(const std::string& pattern) const {
  if (!impl_->root) {
    throw Error(Failure::usage, "there is no INPUT whose groups " + pattern + " could match");
  }
  if (pattern.find_first_not_of('/') == std::string::npos) {
    throw Error(Failure::usage, "'" + pattern + "' names no groups",
                "such as '/text/*/layer*': one pattern for each level");
  }
  const Impl::Root& root = *impl_->root;
  const h5::Lock lock;
  h5::set_subject(root.description());
  const std::string address = root.address();
  std::vector<std::string> found = matching_groups(root.group, address, pattern);
  if (found.empty()) found = matching_groups(root.group, address, with_slashes(pattern));
  if (found.empty()) {
    refuse_missing(root.description(), h5::Kind::group, "like " + pattern,
                   io::all_groups(root.group, address));
  }
  return found;
}

std::vector<std::string> InputBundle::all_groups() const {
  if (!impl_->root) return {};
  const h5::Lock lock;
  h5::set_subject(impl_->root->description());
  return io::all_groups(impl_->root->group, impl_->root->address());
}

std::vector<std::string> InputBundle::flat_names() const {
  const bool flat = impl_->root && impl_->root->file->flat && impl_->root->path == "/";
  return flat ? impl_->root->file->arrays->names() : std::vector<std::string>();
}

InputBundle InputBundle::group(const std::string& path) const {
  auto view = std::make_unique<Impl>();
  if (path.empty()) {
    if (impl_->root) view->root = impl_->root->again();
  } else if (impl_->root) {
    view->root = impl_->root->below(path);
  } else {
    throw Error(Failure::input, description() + " have no groups");
  }
  view->named = impl_->named;
  view->of_host = impl_->of_host;
  view->renamed = impl_->renamed;
  view->asked = impl_->asked;
  view->asked_attributes = impl_->asked_attributes;
  return InputBundle(std::move(view));
}

InputBundle InputBundle::without_named() const {
  auto view = std::make_unique<Impl>();
  if (impl_->root) view->root = impl_->root->again();
  view->renamed = impl_->renamed;
  return InputBundle(std::move(view));
}

std::string InputBundle::description() const {
  if (impl_->root) return impl_->root->description();
  return impl_->of_host ? "the arrays" : "the named datasets";
}

}  // namespace attn::io
