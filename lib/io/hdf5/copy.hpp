#pragma once

#include <string>
#include <vector>

#include "io/hdf5/output_file.hpp"
#include "io/input_bundle.hpp"

namespace attn::io {

/// What OutputBundle::copy_from promises: the objects of INPUT's group, its attributes, and the
/// named datasets, in this order and each sorted by name. What the output has already stays.
/// `without` are paths from the root. Called under h5::Lock.
void copy_bundle(const InputBundle::Impl& input, OutputFile& output,
                 const std::vector<std::string>& without);

/// The named datasets alone, into the group `path` ("" for the root), except those in `without`.
/// What the output has already stays.
void copy_named(const InputBundle::Impl& input, OutputFile& output, const std::string& path,
                const std::vector<std::string>& without);

/// The attributes of INPUT's group alone, onto `object`; those that it has already stay.
void copy_root_attributes(const InputBundle::Impl& input, OutputFile& output, hid_t object);

}  // namespace attn::io
