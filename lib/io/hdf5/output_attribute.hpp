#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "io/hdf5/output_file.hpp"

namespace attn::io {

// Attributes of an object in a file being written. An attribute of the same name is replaced.

void write_attribute(OutputFile& file, hid_t object, const std::string& name, double value);
void write_attribute(OutputFile& file, hid_t object, const std::string& name, std::int64_t value);
void write_attribute(OutputFile& file, hid_t object, const std::string& name,
                     const std::string& value);

void remove_attribute(OutputFile& file, hid_t object, const std::string& name);

/// Copies all attributes of `source`, of any type, except those for which `skip` is true and those
/// that hold references, since their targets have other addresses in the new file. Throws
/// Error(input) naming `source_name` if one cannot be read.
void copy_attributes(hid_t source, const std::string& source_name, OutputFile& file, hid_t object,
                     const std::function<bool(const std::string&)>& skip);

}  // namespace attn::io
