#pragma once

#include <optional>
#include <string>
#include <vector>

#include "io/contents.hpp"
#include "io/hdf5/h5.hpp"

namespace attn::io::h5 {

/// Names of an object's attributes, sorted. Throws Error(input) naming `what`.
std::vector<std::string> attribute_names(hid_t object, const std::string& what);

/// All attributes of an object, sorted by name; those with more than `most_values` values are only
/// described. Throws Error(input) naming `what` and the attribute that cannot be read.
std::vector<AttributeValue> attributes(hid_t object, const std::string& what, Index most_values);

/// A single number (or bool) of any width as double; empty if there is no such attribute. Throws
/// Error(input) naming `what` if the attribute is anything else: an unreadable setting must not be
/// mistaken for a missing one.
std::optional<double> number_attribute(hid_t object, const std::string& name,
                                       const std::string& what);

/// A single string, of fixed or variable length; otherwise like number_attribute.
std::optional<std::string> text_attribute(hid_t object, const std::string& name,
                                          const std::string& what);

}  // namespace attn::io::h5
