#pragma once

#include <memory>
#include <string>
#include <vector>

#include "io/arrays/array_output.hpp"
#include "io/contents.hpp"
#include "io/target/target.hpp"

namespace attn::io {

/// The file of arrays that holds the contents of a bundle.
struct ArrayExport {
  std::vector<ArrayPlan> arrays;
  std::string metadata;
  /// Objects that the format cannot hold, "NAME" or "PATH: NAME" for attributes: types such as
  /// HDF5's compounds, strings that are not UTF-8 or are too long, and the attributes that
  /// metadata_text leaves out.
  std::vector<std::string> left_out;
};

/// Everything in INPUT's root and its groups, whose arrays are called "layer0/out". Strings are
/// arrays of an .npz and metadata of a .safetensors. An .npy has no metadata, so only its array is
/// kept. `items` are the items to write, from contents() with metadata_values. Throws Error(input)
/// for an item that cannot be read.
ArrayExport array_export(const InputBundle& bundle, const std::vector<Item>& items,
                         ArrayFormat format);

/// Whether strings can be held: they are UTF-8 and take at most 4 MiB.
bool can_be_held(const std::vector<std::string>& values);

/// ArrayPlan::width of these strings.
Index width_of(const std::vector<std::string>& values);

/// Writes all elements of an array of strings or numbers as they are, piece by piece.
void write_elements(const ArraySource& dataset, ArrayOutput& output);

}  // namespace attn::io
