#pragma once

#include <string>
#include <vector>

#include "io/hdf5/output_file.hpp"
#include "io/input_bundle.hpp"

namespace attn::io {

/// Does what OutputBundle::copy_from promises: copies the objects of INPUT's group, its attributes,
/// and the named datasets, in this order, each sorted by name. Anything already in the output
/// stays; existing groups get only missing objects. `without` holds paths from the root. Called
/// under h5::Lock.
void copy_bundle(const InputBundle::Impl& input, OutputFile& output,
                 const std::vector<std::string>& without);

/// Copies only the named datasets, into the group `path` ("" for the root), except those in
/// `without`. Anything already in the output stays.
void copy_named(const InputBundle::Impl& input, OutputFile& output, const std::string& path,
                const std::vector<std::string>& without);

/// Copies the attributes of the dataset at `path` below INPUT's root to `object`, without `axes`
/// not those that describe its axes. Does nothing for an array of a format without attributes.
/// Throws Error(input) if there is no such dataset.
void copy_attributes_of_dataset(const InputBundle& input, const std::string& path,
                                OutputFile& output, hid_t object, bool axes);

/// Copies only the attributes of INPUT's group, to `object`; attributes it already has stay.
void copy_root_attributes(const InputBundle::Impl& input, OutputFile& output, hid_t object);

}  // namespace attn::io
