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
  /// Objects that the format cannot hold, "NAME" or "PATH: NAME" for attributes: of a type such as
  /// HDF5's compounds, strings that are not UTF-8 or are too long, attributes as in metadata_text.
  std::vector<std::string> left_out;
};

/// Everything in INPUT's root and its groups, whose arrays are called "layer0/out". Strings are
/// arrays of an .npz and metadata of a .safetensors. An .npy has no metadata: what it would hold is
/// left out, apart from arrays. `items` are those of contents() with metadata_values that are to be
/// written. Throws Error(input) for one that cannot be read.
ArrayExport array_export(const InputBundle& bundle, const std::vector<Item>& items,
                         ArrayFormat format);

/// Whether strings can be held: they are UTF-8, and take no more than 4 MiB.
bool can_be_held(const std::vector<std::string>& values);

/// ArrayPlan::width of these strings.
Index width_of(const std::vector<std::string>& values);

/// Writes all elements of an array of strings or numbers as they are, piece by piece.
void write_elements(const ArraySource& dataset, ArrayOutput& output);

}  // namespace attn::io
