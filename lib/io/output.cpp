#include "io/output.hpp"

#include <utility>

#include "io/output_impl.hpp"

namespace attn::io {

OutputDataset::OutputDataset(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}

void OutputDataset::write(const Shape& start, const Shape& count, const float* data,
                          Index row_stride) {
  impl_->write(start, count, data, row_stride);
}
void OutputDataset::write(const Shape& start, const Shape& count, const double* data,
                          Index row_stride) {
  impl_->write(start, count, data, row_stride);
}
void OutputDataset::write(const Shape& start, const Shape& count, const std::uint8_t* data,
                          Index row_stride) {
  impl_->write(start, count, data, row_stride);
}
void OutputDataset::write(const Shape& start, const Shape& count, const std::int64_t* data,
                          Index row_stride) {
  impl_->write(start, count, data, row_stride);
}
void OutputDataset::write_stored(const Shape& start, const Shape& count, const void* data) {
  impl_->write_stored(start, count, data);
}

OutputBundle::OutputBundle(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
OutputBundle::OutputBundle(const Options& options)
    : impl_(options.host ? make_memory_output(options.host) : make_file_output(options)) {}
OutputBundle::~OutputBundle() = default;
OutputBundle::OutputBundle(OutputBundle&&) noexcept = default;
OutputBundle& OutputBundle::operator=(OutputBundle&&) noexcept = default;

OutputBundle OutputBundle::group(const std::string& path) {
  return OutputBundle(impl_->group(path));
}
void OutputBundle::copy_from(const InputBundle& input, const std::vector<std::string>& without) {
  impl_->copy_from(input, without);
}
void OutputBundle::copy_attributes_from(const InputBundle& input) {
  impl_->copy_attributes_from(input);
}
void OutputBundle::copy_named_from(const InputBundle& input,
                                   const std::vector<std::string>& without) {
  impl_->copy_named_from(input, without);
}
void OutputBundle::link(const std::string& name, const std::string& path) {
  impl_->link(name, path);
}
OutputDataset OutputBundle::create(const std::string& name, DType type, const Shape& shape,
                                   const std::vector<std::string>& labels, const Shape& chunk) {
  return impl_->create(name, type, shape, labels, chunk);
}
void OutputBundle::create_virtual(const std::string& name, DType type, const Shape& shape,
                                  const std::vector<std::string>& labels,
                                  const std::vector<VirtualBlock>& blocks) {
  impl_->create_virtual(name, type, shape, labels, blocks);
}
void OutputBundle::copy_dataset_attributes(const std::string& name, const InputBundle& input,
                                           const std::string& path, bool axes) {
  impl_->copy_dataset_attributes(name, input, path, axes);
}
void OutputBundle::write_strings(const std::string& name, const std::vector<std::string>& values,
                                 const std::vector<std::string>& labels) {
  impl_->write_strings(name, values, labels);
}
void OutputBundle::attribute(const std::string& name, double value) {
  impl_->attribute(name, value);
}
void OutputBundle::attribute(const std::string& name, std::int64_t value) {
  impl_->attribute(name, value);
}
void OutputBundle::attribute(const std::string& name, const std::string& value) {
  impl_->attribute(name, value);
}
void OutputBundle::remove_attribute(const std::string& name) { impl_->remove_attribute(name); }
void OutputBundle::dataset_attribute(const std::string& path, const std::string& name,
                                     const std::string& value) {
  impl_->dataset_attribute(path, name, value);
}
void OutputBundle::add_history(const std::string& command_line, const std::string& version) {
  impl_->add_history(command_line, version);
}
std::vector<std::string> OutputBundle::finish() { return impl_->finish(); }
void OutputBundle::commit() { impl_->commit(); }
std::string OutputBundle::description() const { return impl_->description(); }
std::string OutputBundle::address_of(const std::string& name) const {
  return impl_->address_of(name);
}

}  // namespace attn::io
