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
#include "io/output_impl.hpp"

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

/// The bundle as an HDF5 file, from which a file of arrays may be made at the end.
class FileOutput final : public OutputBundle::Impl {
 public:
  explicit FileOutput(const OutputBundle::Options& options)
      : deflate_(options.deflate), holds_numbers_(options.holds_numbers), arrays_(options.arrays) {
    require_deflate(deflate_);
    std::unique_ptr<Target> target = make_target(options);
    if (arrays_) {
      target_ = std::move(target);
      target = make_scratch(options, target_->description());
    }
    const h5::Lock lock;
    file_ = std::make_shared<OutputFile>(std::move(target), options.least_part);
  }

  // Datasets may outlive the bundle; uncommitted data must not.
  ~FileOutput() override {
    if (file_ && !is_view_) file_->discard();
  }

  std::unique_ptr<Impl> group(const std::string& path) override {
    const h5::Lock lock;
    OutputFile& file = open();
    const std::string whole = path.empty() ? path_ : inside(path);
    if (!path.empty()) create_group(file, whole);
    return std::unique_ptr<Impl>(new FileOutput(*this, whole));
  }

  void copy_from(const InputBundle& input, const std::vector<std::string>& without) override {
    const h5::Lock lock;
    h5::set_subject(input.description());
    copy_bundle(input.impl(), open_whole(), without);
  }

  void copy_attributes_from(const InputBundle& input) override {
    const h5::Lock lock;
    with_object(
        [&](OutputFile& file, hid_t object) { copy_root_attributes(input.impl(), file, object); });
  }

  void copy_named_from(const InputBundle& input, const std::vector<std::string>& without) override {
    const h5::Lock lock;
    copy_named(input.impl(), open(), path_, without);
  }

  void link(const std::string& name, const std::string& path) override {
    const h5::Lock lock;
    OutputFile& file = open();
    const std::string made = inside(name);
    make_room(file, made);
    file.check(H5Lcreate_hard(file.root(), path.c_str(), file.root(), made.c_str(),
                              link_properties().get(), H5P_DEFAULT),
               file.address_of(made));
  }

  OutputDataset create(const std::string& own_name, DType type, const Shape& shape,
                       const std::vector<std::string>& labels, const Shape& chunk) override {
    const h5::Lock lock;
    OutputFile& file = open();
    const std::string name = inside(own_name);
    const h5::Unwatched writing;  // allocating the space may also fill it
    h5::Handle dataset =
        create_dataset(file, name, h5::file_type(type).get(), shape, {chunk, deflate_});
    label_axes(file, dataset.get(), name, labels);
    return OutputDataset(std::make_shared<Hdf5OutputDataset>(file_, &file.keep(std::move(dataset)),
                                                             name, shape, type, holds_numbers_));
  }

  void create_virtual(const std::string& own_name, DType type, const Shape& shape,
                      const std::vector<std::string>& labels,
                      const std::vector<VirtualBlock>& blocks) override {
    const h5::Lock lock;
    OutputFile& file = open();
    const std::string name = inside(own_name);
    h5::Handle dataset = io::create_virtual(file, name, type, shape, blocks);
    label_axes(file, dataset.get(), name, labels);
    file.close(dataset, file.address_of(name));
  }

  void copy_dataset_attributes(const std::string& own_name, const InputBundle& input,
                               const std::string& path, bool axes) override {
    const h5::Lock lock;
    OutputFile& file = open();
    const std::string name = inside(own_name);
    h5::Handle dataset =
        file.own(H5Dopen2(file.root(), name.c_str(), H5P_DEFAULT), H5Dclose, file.address_of(name));
    copy_attributes_of_dataset(input, path, file, dataset.get(), axes);
    file.close(dataset, file.address_of(name));
  }

  void write_strings(const std::string& own_name, const std::vector<std::string>& values,
                     const std::vector<std::string>& labels) override {
    const h5::Lock lock;
    OutputFile& file = open();
    const std::string name = inside(own_name);
    const h5::Handle type = h5::text_type();
    h5::Handle dataset =
        create_dataset(file, name, type.get(), {static_cast<Index>(values.size())}, {});
    label_axes(file, dataset.get(), name, labels);
    std::vector<const char*> pointers;
    for (const std::string& value : values) pointers.push_back(value.c_str());
    if (!pointers.empty()) {
      const h5::Unwatched writing;
      file.check(
          H5Dwrite(dataset.get(), type.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, pointers.data()),
          file.address_of(name));
    }
    file.close(dataset, file.address_of(name));
  }

  void attribute(const std::string& name, const HostArrays::Attribute& value) override {
    const h5::Lock lock;
    with_object([&](OutputFile& file, hid_t object) {
      std::visit([&](const auto& held) { write_attribute(file, object, name, held); }, value);
    });
  }

  void remove_attribute(const std::string& name) override {
    const h5::Lock lock;
    with_object([&](OutputFile& file, hid_t object) { io::remove_attribute(file, object, name); });
  }

  void dataset_attribute(const std::string& own_path, const std::string& name,
                         const std::string& value) override {
    const h5::Lock lock;
    OutputFile& file = open();
    const std::string path = inside(own_path);
    if (h5::kind_of(file.root(), path) != h5::Kind::dataset) return;
    h5::Handle dataset =
        file.own(H5Dopen2(file.root(), path.c_str(), H5P_DEFAULT), H5Dclose, file.address_of(path));
    write_attribute(file, dataset.get(), name, value);
    file.close(dataset, file.address_of(path));
  }

  void add_history(const std::string& command_line, const std::string& version) override {
    std::string text = history_line(command_line, version);
    const h5::Lock lock;
    OutputFile& file = open_whole();
    const std::string before = earlier_history(file.root());
    if (!before.empty()) text += "\n" + before;
    write_attribute(file, file.root(), "history", text);
  }

  std::vector<std::string> finish() override {
    if (!arrays_ || made_) return {};
    std::vector<std::string> left_out = make_arrays();
    file_->drop();
    return left_out;
  }

  void commit() override {
    if (!holds_numbers_) throw std::logic_error("a bundle without numbers is committed");
    if (arrays_) {
      finish();
      return made_->commit();
    }
    {
      const h5::Lock lock;
      open_whole().finish();
    }
    file_->deliver();
  }

  std::string description() const override {
    return path_.empty() ? file_->description() : file_->address_of(path_);
  }

  std::string address_of(const std::string& name) const override {
    if (arrays_) return file_->description() + ":" + inside(name);
    return file_->address_of(inside(name));
  }

 private:
  /// A group of the same file.
  FileOutput(const FileOutput& whole, std::string path)
      : file_(whole.file_),
        deflate_(whole.deflate_),
        holds_numbers_(whole.holds_numbers_),
        arrays_(whole.arrays_),
        path_(std::move(path)),
        is_view_(true) {}

  /// The file, checked to be ready for a sequence of HDF5 calls.
  OutputFile& open() const {
    file_->require_open();
    return *file_;
  }

  OutputFile& open_whole() const {
    if (is_view_) throw std::logic_error("'" + path_ + "' is a group, expected the whole bundle");
    return open();
  }

  std::string inside(const std::string& name) const {
    return path_.empty() ? name : path_ + "/" + name;
  }

  /// Calls `body` with the object that carries the attributes.
  template <class Body>
  void with_object(const Body& body) const {
    OutputFile& output = open();
    if (path_.empty()) return body(output, output.root());
    h5::Handle object = output.own(H5Gopen2(output.root(), path_.c_str(), H5P_DEFAULT), H5Gclose,
                                   output.address_of(path_));
    body(output, object.get());
    output.close(object, output.address_of(path_));
  }

  /// Completes the HDF5 file and makes the file of arrays from it.
  std::vector<std::string> make_arrays() {
    auto complete = std::make_shared<InputFile>();
    complete->label = file_->description();
    {
      const h5::Lock lock;
      open_whole().finish();
      complete->handle = file_->reopened();
    }
    const InputBundle bundle = bundle_in(complete);
    ArrayExport content = array_export(bundle, contents(bundle, metadata_values), *arrays_);
    made_.emplace(std::move(target_), *arrays_, std::move(content.arrays),
                  std::move(content.metadata));
    for (const ArrayPlan& array : made_->order()) {
      write_elements(bundle.dataset(array.name), *made_);
    }
    return content.left_out;
  }

  std::shared_ptr<OutputFile> file_;
  int deflate_ = 0;
  bool holds_numbers_ = true;
  std::optional<ArrayFormat> arrays_;  // the format that is made from the file
  std::unique_ptr<Target> target_;     // of that format, until its file is made
  std::optional<ArrayOutput> made_;
  std::string path_;      // path of the group; empty: the root
  bool is_view_ = false;  // whether it is a group of another bundle's file
};

}  // namespace

std::unique_ptr<OutputBundle::Impl> make_file_output(const OutputBundle::Options& options) {
  return std::make_unique<FileOutput>(options);
}

}  // namespace attn::io
