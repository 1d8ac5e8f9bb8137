#pragma once

#include <string>
#include <vector>

#include "io/input_bundle.hpp"
#include "io/output_file.hpp"

namespace attn::io {

/// What OutputBundle::copy_from promises: the objects of INPUT's group, its attributes, and the
/// named datasets, in this order and each sorted by name. What the output has already stays.
/// Called under h5::Lock.
void copy_bundle(const InputBundle::Impl& input, OutputFile& output,
                 const std::vector<std::string>& without);

/// The attributes of INPUT's group alone; those that the output has already stay.
void copy_root_attributes(const InputBundle::Impl& input, OutputFile& output);

}  // namespace attn::io
