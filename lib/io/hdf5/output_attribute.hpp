#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "io/hdf5/output_file.hpp"

namespace attn::io {

// Attributes of an object in a file that is being written. One of the same name is replaced.

void write_attribute(OutputFile& file, hid_t object, const std::string& name, double value);
void write_attribute(OutputFile& file, hid_t object, const std::string& name, std::int64_t value);
void write_attribute(OutputFile& file, hid_t object, const std::string& name,
                     const std::string& value);

void remove_attribute(OutputFile& file, hid_t object, const std::string& name);

/// Copies all attributes of `source`, of any type, except those that `skip` picks. Those that hold
/// references are left out too: what they refer to has another address in the new file. Throws
/// Error(input) naming `source_name` where one cannot be read.
void copy_attributes(hid_t source, const std::string& source_name, OutputFile& file, hid_t object,
                     const std::function<bool(const std::string&)>& skip);

}  // namespace attn::io
