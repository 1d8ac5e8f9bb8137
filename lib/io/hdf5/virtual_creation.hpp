#pragma once

#include <string>
#include <vector>

#include "io/hdf5/output_file.hpp"
#include "io/virtual_block.hpp"
#include "tensor/dtype.hpp"

namespace attn::io {

/// Creates a virtual dataset under the root, and replaces any object of that name. Elements that no
/// block supplies, or whose file is missing, read as NaN, or as the least integer: programs that do
/// not check the sources must not mistake a hole for zeros. Requires float32, float64 or int64 and
/// at least one axis (std::invalid_argument). Called under h5::Lock.
h5::Handle create_virtual(OutputFile& output, const std::string& name, DType type,
                          const Shape& shape, const std::vector<VirtualBlock>& blocks);

}  // namespace attn::io
