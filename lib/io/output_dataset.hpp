#pragma once

#include <memory>
#include <string>
#include <utility>

#include "io/output.hpp"
#include "io/output_file.hpp"

namespace attn::io {

/// What stands behind an OutputDataset; the identifier belongs to the file.
struct OutputDataset::Impl {
  std::shared_ptr<OutputFile> file;
  const h5::Handle* handle = nullptr;
  std::string name;
  Shape shape;
  DType dtype = DType::f32;
};

}  // namespace attn::io
