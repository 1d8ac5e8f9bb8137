#pragma once

#include <memory>
#include <string>
#include <vector>

#include "io/output.hpp"
#include "tensor/host_arrays.hpp"

namespace attn::io {

/// What a dataset that is being written must be able to do; see OutputDataset.
struct OutputDataset::Impl {
  Impl() = default;
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;
  virtual ~Impl() = default;

  virtual void write(const Shape& start, const Shape& count, const float* data,
                     Index row_stride) = 0;
  virtual void write(const Shape& start, const Shape& count, const double* data,
                     Index row_stride) = 0;
  virtual void write(const Shape& start, const Shape& count, const std::uint8_t* data,
                     Index row_stride) = 0;
  virtual void write(const Shape& start, const Shape& count, const std::int64_t* data,
                     Index row_stride) = 0;
  virtual void write_stored(const Shape& start, const Shape& count, const void* data) = 0;
};

/// What a bundle that is being written must be able to do; see OutputBundle.
struct OutputBundle::Impl {
  Impl() = default;
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;
  virtual ~Impl() = default;

  virtual std::unique_ptr<Impl> group(const std::string& path) = 0;
  virtual void copy_from(const InputBundle& input, const std::vector<std::string>& without) = 0;
  virtual void copy_attributes_from(const InputBundle& input) = 0;
  virtual void copy_named_from(const InputBundle& input,
                               const std::vector<std::string>& without) = 0;
  virtual void link(const std::string& name, const std::string& path) = 0;
  virtual OutputDataset create(const std::string& name, DType type, const Shape& shape,
                               const std::vector<std::string>& labels, const Shape& chunk) = 0;
  virtual void create_virtual(const std::string& name, DType type, const Shape& shape,
                              const std::vector<std::string>& labels,
                              const std::vector<VirtualBlock>& blocks) = 0;
  virtual void copy_dataset_attributes(const std::string& name, const InputBundle& input,
                                       const std::string& path, bool axes) = 0;
  virtual void write_strings(const std::string& name, const std::vector<std::string>& values,
                             const std::vector<std::string>& labels) = 0;
  virtual void attribute(const std::string& name, const HostArrays::Attribute& value) = 0;
  virtual void remove_attribute(const std::string& name) = 0;
  virtual void dataset_attribute(const std::string& path, const std::string& name,
                                 const std::string& value) = 0;
  virtual void add_history(const std::string& command_line, const std::string& version) = 0;
  virtual std::vector<std::string> finish() = 0;
  virtual void commit() = 0;
  virtual std::string description() const = 0;
  virtual std::string address_of(const std::string& name) const = 0;
};

/// A bundle in a file or a stream, made by HDF5.
std::unique_ptr<OutputBundle::Impl> make_file_output(const OutputBundle::Options& options);

/// A bundle in the memory of the program.
std::unique_ptr<OutputBundle::Impl> make_memory_output(std::shared_ptr<HostArrays> host);

}  // namespace attn::io
