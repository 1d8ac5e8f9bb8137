#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "io/input.hpp"
#include "tensor/dtype.hpp"
#include "tensor/shape.hpp"

namespace attn::io {

/// The values of an attribute, row-major. An attribute that is neither numbers nor strings, is
/// empty, or has more values than requested, is only described: "a compound type", "float64, 3000".
struct AttributeValue {
  struct Described {
    std::string text;
    bool is_empty = false;  ///< there are no values
  };
  std::string name;
  Shape shape;  ///< no axes: a single value rather than a list of one
  std::variant<std::vector<double>, std::vector<std::int64_t>, std::vector<std::string>, Described>
      value;
};
inline constexpr Index attribute_limit = 64;  ///< the number of values that a person would read

/// One group or dataset of a bundle.
struct Item {
  std::string path;  ///< relative to INPUT's root, without a leading slash: "text/wiki/layer0/Q"
  bool is_group = false;
  std::vector<AttributeValue> attributes;  ///< sorted by name
  // For datasets only:
  Shape shape;
  DType dtype = DType::other;
  std::string type;  ///< "float32", "a compound type"
  /// The reason why the item cannot be opened or listed: "a.h5:/v cannot be opened: ..."; empty if
  /// it can.
  std::string unreadable;
};

/// Every group and dataset below INPUT's root, and every link there whose target cannot be opened,
/// depth first, sorted by name with numbers in numerical order. A group that several links lead to
/// is listed under the first one. Attributes with more than `most_values` values are only
/// described. Throws Error(input) if the root itself cannot be listed.
std::vector<Item> contents(const InputBundle& bundle, Index most_values = attribute_limit);

/// Throws Error(input) for the first unreadable item: copying and comparing need all of them.
void require_readable(const std::vector<Item>& items);

/// The attributes of INPUT's root.
std::vector<AttributeValue> root_attributes(const InputBundle& bundle,
                                            Index most_values = attribute_limit);

}  // namespace attn::io
