#include "io/output.hpp"

#include <utility>

#include "io/copy.hpp"
#include "io/dataset_creation.hpp"
#include "io/h5_attribute.hpp"
#include "io/h5_type.hpp"
#include "io/history.hpp"
#include "io/output_attribute.hpp"
#include "io/output_dataset.hpp"
#include "io/output_file.hpp"
#include "tensor/error.hpp"

namespace attn::io {
namespace {

/// Nothing where a foreign `history` is no text: that is no reason to refuse the file.
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

  /// The file, ready for a sequence of HDF5 calls.
  OutputFile& open() const {
    file->require_open();
    return *file;
  }

  // Datasets may live longer than the bundle; what was not committed must not.
  ~Impl() {
    if (file) file->discard();
  }
};

OutputBundle::OutputBundle(const Options& options) : impl_(std::make_unique<Impl>()) {
  require_deflate(options.deflate);
  impl_->deflate = options.deflate;
  std::unique_ptr<Target> target = make_target(options);
  const h5::Lock lock;
  impl_->file = std::make_shared<OutputFile>(std::move(target));
}

OutputBundle::~OutputBundle() = default;
OutputBundle::OutputBundle(OutputBundle&&) noexcept = default;
OutputBundle& OutputBundle::operator=(OutputBundle&&) noexcept = default;

void OutputBundle::copy_from(const InputBundle& input, const std::vector<std::string>& without) {
  const h5::Lock lock;
  h5::set_subject(input.description());
  copy_bundle(input.impl(), impl_->open(), without);
}

void OutputBundle::copy_attributes_from(const InputBundle& input) {
  const h5::Lock lock;
  copy_root_attributes(input.impl(), impl_->open());
}

OutputDataset OutputBundle::create(const std::string& name, DType type, const Shape& shape,
                                   const std::vector<std::string>& labels, const Shape& chunk) {
  const h5::Lock lock;
  OutputFile& file = impl_->open();
  h5::Handle dataset =
      create_dataset(file, name, h5::file_type(type).get(), shape, {chunk, impl_->deflate});
  label_axes(file, dataset.get(), name, labels);
  return OutputDataset(std::make_shared<OutputDataset::Impl>(
      impl_->file, &file.keep(std::move(dataset)), name, shape, type));
}

void OutputBundle::write_strings(const std::string& name, const std::vector<std::string>& values,
                                 const std::vector<std::string>& labels) {
  const h5::Lock lock;
  OutputFile& file = impl_->open();
  const h5::Handle type = h5::text_type();
  h5::Handle dataset =
      create_dataset(file, name, type.get(), {static_cast<Index>(values.size())}, {});
  label_axes(file, dataset.get(), name, labels);
  std::vector<const char*> pointers;
  for (const std::string& value : values) pointers.push_back(value.c_str());
  if (!pointers.empty()) {
    file.check(H5Dwrite(dataset.get(), type.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, pointers.data()),
               file.address_of(name));
  }
  file.close(dataset, file.address_of(name));
}

void OutputBundle::attribute(const std::string& name, double value) {
  const h5::Lock lock;
  OutputFile& file = impl_->open();
  write_attribute(file, file.root(), name, value);
}

void OutputBundle::attribute(const std::string& name, std::int64_t value) {
  const h5::Lock lock;
  OutputFile& file = impl_->open();
  write_attribute(file, file.root(), name, value);
}

void OutputBundle::attribute(const std::string& name, const std::string& value) {
  const h5::Lock lock;
  OutputFile& file = impl_->open();
  write_attribute(file, file.root(), name, value);
}

void OutputBundle::remove_attribute(const std::string& name) {
  const h5::Lock lock;
  OutputFile& file = impl_->open();
  io::remove_attribute(file, file.root(), name);
}

void OutputBundle::add_history(const std::string& command_line, const std::string& version) {
  std::string text = history_line(command_line, version);
  const h5::Lock lock;
  OutputFile& file = impl_->open();
  const std::string before = earlier_history(file.root());
  if (!before.empty()) text += "\n" + before;
  write_attribute(file, file.root(), "history", text);
}

void OutputBundle::commit() {
  {
    const h5::Lock lock;
    impl_->file->finish();
  }
  impl_->file->deliver();
}

std::string OutputBundle::description() const { return impl_->file->description(); }

}  // namespace attn::io
