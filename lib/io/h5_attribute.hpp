#pragma once

#include <optional>
#include <string>
#include <vector>

#include "io/h5.hpp"

namespace attn::io::h5 {

/// Names of an object's attributes, sorted. Throws Error(input) naming `what`.
std::vector<std::string> attribute_names(hid_t object, const std::string& what);

/// A single number (or bool) of any width as double; absent where there is none, or it is
/// something else.
std::optional<double> number_attribute(hid_t object, const std::string& name);

/// A single string, of fixed or variable length.
std::optional<std::string> text_attribute(hid_t object, const std::string& name);

}  // namespace attn::io::h5
