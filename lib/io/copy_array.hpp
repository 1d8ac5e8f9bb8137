#pragma once

#include <string>

#include "io/hdf5/output_file.hpp"
#include "tensor/array_source.hpp"

namespace attn::io {

/// Copies a dataset of any format to `path` under the output's root, which must be free: numbers
/// and bool bit for bit (bfloat16, which few readers of HDF5 know, is widened to float32), strings
/// as strings of variable length. The copy is contiguous and has no attributes. Throws Error(input)
/// naming the dataset if the output cannot have one of its type or name.
void copy_array(const ArraySource::Impl& source, OutputFile& output, const std::string& path);

}  // namespace attn::io
