#pragma once

#include <string>

#include "io/hdf5/output_file.hpp"
#include "io/input_dataset.hpp"

namespace attn::io {

/// Copies a dataset of any format to `path` under the output's root, where there is nothing:
/// numbers and bool bit for bit (bfloat16, which HDF5 does not have, widened to float32), strings
/// as strings of variable length. Contiguous, without attributes. Throws Error(input) naming the
/// dataset where the output cannot have one of its type or name.
void copy_array(const InputDataset::Impl& source, OutputFile& output, const std::string& path);

/// Throws Error(input) naming `address` where a bundle can have no dataset called `name`.
void require_bundle_name(const std::string& address, const std::string& name);

}  // namespace attn::io
