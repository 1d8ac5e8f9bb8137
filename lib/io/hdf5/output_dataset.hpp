#pragma once

#include <memory>
#include <string>
#include <utility>

#include "io/hdf5/output_file.hpp"
#include "io/output.hpp"

namespace attn::io {

/// The implementation of OutputDataset. The identifier belongs to the file, which closes it as soon
/// as no OutputDataset refers to it, because its chunk cache takes memory.
struct OutputDataset::Impl {
  Impl(std::shared_ptr<OutputFile> in, const h5::Handle* identifier, std::string path,
       const Shape& extent, DType type, bool keeps_numbers)
      : file(std::move(in)),
        handle(identifier),
        name(std::move(path)),
        shape(extent),
        dtype(type),
        holds_numbers(keeps_numbers) {}
  ~Impl() { file->release(handle, name); }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  std::shared_ptr<OutputFile> file;
  const h5::Handle* handle;
  std::string name;
  Shape shape;
  DType dtype;
  bool holds_numbers;  // as in OutputBundle::Options
};

}  // namespace attn::io
