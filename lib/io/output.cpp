#include "io/output.hpp"

#include <stdexcept>
#include <utility>

#include "attnkit/error.hpp"
#include "io/array_export.hpp"
#include "io/array_metadata.hpp"
#include "io/hdf5/copy.hpp"
#include "io/hdf5/dataset_creation.hpp"
#include "io/hdf5/h5_attribute.hpp"
#include "io/hdf5/h5_type.hpp"
#include "io/hdf5/h5_watch.hpp"
#include "io/hdf5/output_attribute.hpp"
#include "io/hdf5/output_dataset.hpp"
#include "io/hdf5/output_file.hpp"
#include "io/hdf5/virtual_creation.hpp"
#include "io/history.hpp"
#include "io/input_bundle.hpp"

namespace attn::io {
namespace {

/// Empty if a foreign `history` is not text: that is no reason to refuse the file.
std::string earlier_history(hid_t root) {
  try {
    return h5::text_attribute(root, "history", "").value_or("");
  } catch (const Error&) {
    return {};
  }
}

}  // namespace

struct OutputBundle::Impl {
  std::shared_ptr<OutputFile> file;
  int deflate = 0;
  bool holds_numbers = true;
  std::optional<ArrayFormat> arrays;  // the format that is made from the file
  std::unique_ptr<Target> target;     // of that format, until its file is made
  std::optional<ArrayOutput> made;
  std::string path;      // path of the group; empty: the root
  bool is_view = false;  // whether it is a group of another bundle's file

  /// The file, checked to be ready for a sequence of HDF5 calls.
  OutputFile& open() const {
    file->require_open();
    return *file;
  }

  OutputFile& open_whole() const {
    if (is_view) throw std::logic_error("'" + path + "' is a group, expected the whole bundle");
    return open();
  }

  std::string inside(const std::string& name) const {
    return path.empty() ? name : path + "/" + name;
  }

  /// Calls `body` with the object that carries the attributes.
  template <class Body>
  void with_object(const Body& body) const {
    OutputFile& output = open();
    if (path.empty()) return body(output, output.root());
    h5::Handle object = output.own(H5Gopen2(output.root(), path.c_str(), H5P_DEFAULT), H5Gclose,
                                   output.address_of(path));
    body(output, object.get());
    output.close(object, output.address_of(path));
  }

  /// Completes the HDF5 file and makes the file of arrays from it.
  std::vector<std::string> make_arrays() {
    auto complete = std::make_shared<InputFile>();
    complete->label = file->description();
    {
      const h5::Lock lock;
      open_whole().finish();
      complete->handle = file->reopened();
    }
    const InputBundle bundle = bundle_in(complete);
    ArrayExport content = array_export(bundle, contents(bundle, metadata_values), *arrays);
    made.emplace(std::move(target), *arrays, std::move(content.arrays),
                 std::move(content.metadata));
    for (const ArrayPlan& array : made->order()) write_elements(bundle.dataset(array.name), *made);
    return content.left_out;
  }

  // Datasets may outlive the bundle; uncommitted data must not.
  ~Impl() {
    if (file && !is_view) file->discard();
  }
};

OutputBundle::OutputBundle(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

OutputBundle::OutputBundle(const Options& options) : impl_(std::make_unique<Impl>()) {
  require_deflate(options.deflate);
  impl_->deflate = options.deflate;
  impl_->holds_numbers = options.holds_numbers;
  std::unique_ptr<Target> target = make_target(options);
  if (options.arrays) {
    impl_->arrays = options.arrays;
    impl_->target = std::move(target);
    target = make_scratch(options, impl_->target->description());
  }
  const h5::Lock lock;
  impl_->file = std::make_shared<OutputFile>(std::move(target), options.least_part);
}

OutputBundle::~OutputBundle() = default;
OutputBundle::OutputBundle(OutputBundle&&) noexcept = default;
OutputBundle& OutputBundle::operator=(OutputBundle&&) noexcept = default;

OutputBundle OutputBundle::group(const std::string& path) {
  const h5::Lock lock;
  OutputFile& file = impl_->open();
  auto view = std::make_unique<Impl>();
  view->path = path.empty() ? impl_->path : impl_->inside(path);
  if (!path.empty()) create_group(file, view->path);
  view->is_view = true;
  view->file = impl_->file;
  view->deflate = impl_->deflate;
  view->holds_numbers = impl_->holds_numbers;
  view->arrays = impl_->arrays;
  return OutputBundle(std::move(view));
}

void OutputBundle::copy_from(const InputBundle& input, const std::vector<std::string>& without) {
  const h5::Lock lock;
  h5::set_subject(input.description());
  copy_bundle(input.impl(), impl_->open_whole(), without);
}

void OutputBundle::copy_attributes_from(const InputBundle& input) {
  const h5::Lock lock;
  impl_->with_object(
      [&](OutputFile& file, hid_t object) { copy_root_attributes(input.impl(), file, object); });
}

void OutputBundle::copy_named_from(const InputBundle& input,
                                   const std::vector<std::string>& without) {
  const h5::Lock lock;
  copy_named(input.impl(), impl_->open(), impl_->path, without);
}

void OutputBundle::link(const std::string& name, const std::string& path) {
  const h5::Lock lock;
  OutputFile& file = impl_->open();
  const std::string made = impl_->inside(name);
  make_room(file, made);
  file.check(H5Lcreate_hard(file.root(), path.c_str(), file.root(), made.c_str(),
                            link_properties().get(), H5P_DEFAULT),
             file.address_of(made));
}

OutputDataset OutputBundle::create(const std::string& own_name, DType type, const Shape& shape,
                                   const std::vector<std::string>& labels, const Shape& chunk) {
  const h5::Lock lock;
  OutputFile& file = impl_->open();
  const std::string name = impl_->inside(own_name);
  const h5::Unwatched writing;  // allocating the space may also fill it
  h5::Handle dataset =
      create_dataset(file, name, h5::file_type(type).get(), shape, {chunk, impl_->deflate});
  label_axes(file, dataset.get(), name, labels);
  return OutputDataset(std::make_shared<OutputDataset::Impl>(
      impl_->file, &file.keep(std::move(dataset)), name, shape, type, impl_->holds_numbers));
}

void OutputBundle::create_virtual(const std::string& own_name, DType type, const Shape& shape,
                                  const std::vector<std::string>& labels,
                                  const std::vector<VirtualBlock>& blocks) {
  const h5::Lock lock;
  OutputFile& file = impl_->open();
  const std::string name = impl_->inside(own_name);
  h5::Handle dataset = io::create_virtual(file, name, type, shape, blocks);
  label_axes(file, dataset.get(), name, labels);
  file.close(dataset, file.address_of(name));
}

void OutputBundle::copy_dataset_attributes(const std::string& own_name, const InputBundle& input,
                                           const std::string& path, bool axes) {
  const h5::Lock lock;
  OutputFile& file = impl_->open();
  const std::string name = impl_->inside(own_name);
  h5::Handle dataset =
      file.own(H5Dopen2(file.root(), name.c_str(), H5P_DEFAULT), H5Dclose, file.address_of(name));
  copy_attributes_of_dataset(input, path, file, dataset.get(), axes);
  file.close(dataset, file.address_of(name));
}

void OutputBundle::write_strings(const std::string& own_name,
                                 const std::vector<std::string>& values,
                                 const std::vector<std::string>& labels) {
  const h5::Lock lock;
  OutputFile& file = impl_->open();
  const std::string name = impl_->inside(own_name);
  const h5::Handle type = h5::text_type();
  h5::Handle dataset =
      create_dataset(file, name, type.get(), {static_cast<Index>(values.size())}, {});
  label_axes(file, dataset.get(), name, labels);
  std::vector<const char*> pointers;
  for (const std::string& value : values) pointers.push_back(value.c_str());
  if (!pointers.empty()) {
    const h5::Unwatched writing;
    file.check(H5Dwrite(dataset.get(), type.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, pointers.data()),
               file.address_of(name));
  }
  file.close(dataset, file.address_of(name));
}

void OutputBundle::attribute(const std::string& name, double value) {
  const h5::Lock lock;
  impl_->with_object(
      [&](OutputFile& file, hid_t object) { write_attribute(file, object, name, value); });
}

void OutputBundle::attribute(const std::string& name, std::int64_t value) {
  const h5::Lock lock;
  impl_->with_object(
      [&](OutputFile& file, hid_t object) { write_attribute(file, object, name, value); });
}

void OutputBundle::attribute(const std::string& name, const std::string& value) {
  const h5::Lock lock;
  impl_->with_object(
      [&](OutputFile& file, hid_t object) { write_attribute(file, object, name, value); });
}

void OutputBundle::remove_attribute(const std::string& name) {
  const h5::Lock lock;
  impl_->with_object(
      [&](OutputFile& file, hid_t object) { io::remove_attribute(file, object, name); });
}

void OutputBundle::dataset_attribute(const std::string& own_path, const std::string& name,
                                     const std::string& value) {
  const h5::Lock lock;
  OutputFile& file = impl_->open();
  const std::string path = impl_->inside(own_path);
  if (h5::kind_of(file.root(), path) != h5::Kind::dataset) return;
  h5::Handle dataset =
      file.own(H5Dopen2(file.root(), path.c_str(), H5P_DEFAULT), H5Dclose, file.address_of(path));
  write_attribute(file, dataset.get(), name, value);
  file.close(dataset, file.address_of(path));
}

void OutputBundle::add_history(const std::string& command_line, const std::string& version) {
  std::string text = history_line(command_line, version);
  const h5::Lock lock;
  OutputFile& file = impl_->open_whole();
  const std::string before = earlier_history(file.root());
  if (!before.empty()) text += "\n" + before;
  write_attribute(file, file.root(), "history", text);
}

std::vector<std::string> OutputBundle::finish() {
  if (!impl_->arrays || impl_->made) return {};
  std::vector<std::string> left_out = impl_->make_arrays();
  impl_->file->drop();
  return left_out;
}

void OutputBundle::commit() {
  if (!impl_->holds_numbers) throw std::logic_error("a bundle without numbers is committed");
  if (impl_->arrays) {
    finish();
    return impl_->made->commit();
  }
  {
    const h5::Lock lock;
    impl_->open_whole().finish();
  }
  impl_->file->deliver();
}

std::string OutputBundle::description() const {
  return impl_->path.empty() ? impl_->file->description() : impl_->file->address_of(impl_->path);
}

std::string OutputBundle::address_of(const std::string& name) const {
  if (impl_->arrays) return impl_->file->description() + ":" + impl_->inside(name);
  return impl_->file->address_of(impl_->inside(name));
}

}  // namespace attn::io
