#pragma once

#include <map>
#include <string>
#include <string_view>

#include "io/arrays/stored_array.hpp"

namespace attn::io {

/// One entry of a .safetensors header: the description of an array and the range of its bytes.
struct SafetensorsEntry {
  StoredArray array;
  Index begin = 0;  ///< offset in the data section, which follows the header
  Index end = 0;
};

/// Reads the JSON header of a .safetensors whose data section has `data_size` bytes. Throws
/// Error(input) naming `label` if it is not JSON of this form, a name is repeated, empty or has
/// control characters, a dtype is unknown, a shape is negative or overflows, or offsets do not
/// match the shape, overlap, leave gaps or lie outside the data. Memory use is proportional to the
/// entries that the header really holds; JSON nested deeper than the form allows is refused as soon
/// as it begins. `metadata`, if given, becomes the entry metadata_key of `__metadata__`.
/// Source: the reference implementation's README, section Format.
std::map<std::string, SafetensorsEntry> read_safetensors_header(std::string_view json,
                                                                Index data_size,
                                                                const std::string& label,
                                                                std::string* metadata = nullptr);

}  // namespace attn::io
