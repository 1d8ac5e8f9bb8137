#pragma once

#include <string>
#include <vector>

#include "io/contents.hpp"

namespace attn::io {

/// A dataset of strings that is stored with the metadata, in a format without strings.
struct TextDataset {
  std::string path;
  Shape shape;
  std::vector<std::string> values;
};

/// The contents of a bundle other than arrays, as a JSON text for ArrayOutput:
///
///     {"schema": "attnkit/1",
///      "attributes": {NAME: VALUE, ...},
///      "groups": {PATH: {NAME: VALUE, ...}, ...},
///      "datasets": {PATH: {NAME: VALUE, ...}, ...},
///      "strings": {PATH: {"shape": [...], "values": [...]}, ...}}
///
/// A VALUE is a number, a text, or a list of these. Datasets without attributes are not listed.
/// Empty if the bundle has only arrays. Attributes of other types, of two axes or more, or with
/// numbers that are not finite are added to `left_out`, as "NAME" or "PATH: NAME", except
/// attributes that hold references (HDF5's dimension scales).
std::string metadata_text(const std::vector<AttributeValue>& root, const std::vector<Item>& items,
                          const std::vector<TextDataset>& texts,
                          std::vector<std::string>& left_out);

/// Puts a line about this run in front of the attribute `history`, like OutputBundle::add_history.
void put_history(std::vector<AttributeValue>& root, const std::string& command_line,
                 const std::string& version);

/// How many values of an attribute such a text may hold.
constexpr Index metadata_values = 4096;

}  // namespace attn::io
