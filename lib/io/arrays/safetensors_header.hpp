#pragma once

#include <map>
#include <string>
#include <string_view>

#include "io/arrays/stored_array.hpp"

namespace attn::io {

/// One entry of a .safetensors header: an array without its bytes, and where they lie.
struct SafetensorsEntry {
  StoredArray array;
  Index begin = 0;  ///< in the data, which follows the header
  Index end = 0;
};

/// Reads the JSON header of a .safetensors whose data has `data_size` bytes. Throws Error(input)
/// naming `label`: no JSON or not of this form, a name twice, without characters or with control
/// characters, an unknown dtype, a negative or overflowing shape, offsets that do not fit the
/// shape, overlap, leave gaps or lie outside of the data. Memory goes with the entries that the
/// header really holds; what is nested deeper than the form allows is refused where it begins.
/// Source: the reference implementation's README, section Format.
std::map<std::string, SafetensorsEntry> read_safetensors_header(std::string_view json,
                                                                Index data_size,
                                                                const std::string& label);

}  // namespace attn::io
