#pragma once

#include <memory>
#include <string>
#include <utility>

#include "io/hdf5/output_file.hpp"
#include "io/output_impl.hpp"

namespace attn::io {

/// A dataset of an HDF5 file. The identifier belongs to the file, which closes it as soon as no
/// OutputDataset refers to it, because its chunk cache takes memory.
class Hdf5OutputDataset final : public OutputDataset::Impl {
 public:
  /// `keeps_numbers` as OutputBundle::Options::holds_numbers.
  Hdf5OutputDataset(std::shared_ptr<OutputFile> in, const h5::Handle* identifier, std::string path,
                    const Shape& extent, DType type, bool keeps_numbers)
      : file_(std::move(in)),
        handle_(identifier),
        name_(std::move(path)),
        shape_(extent),
        dtype_(type),
        holds_numbers_(keeps_numbers) {}
  ~Hdf5OutputDataset() override { file_->release(handle_, name_); }

  void write(const Shape& start, const Shape& count, const float* data, Index row_stride) override;
  void write(const Shape& start, const Shape& count, const double* data, Index row_stride) override;
  void write(const Shape& start, const Shape& count, const std::uint8_t* data,
             Index row_stride) override;
  void write(const Shape& start, const Shape& count, const std::int64_t* data,
             Index row_stride) override;
  void write_stored(const Shape& start, const Shape& count, const void* data) override;

 private:
  template <class T>
  void write_block(const Shape& start, const Shape& count, const T* data, Index row_stride) const;
  template <class T>
  void write_contiguous(const Shape& start, const Shape& count, const T* data) const;
  void write_as(const Shape& start, const Shape& count, hid_t type, const void* data) const;

  std::shared_ptr<OutputFile> file_;
  const h5::Handle* handle_;
  std::string name_;
  Shape shape_;
  DType dtype_;
  bool holds_numbers_;
};

}  // namespace attn::io
