#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "io/input.hpp"
#include "tensor/dtype.hpp"
#include "tensor/shape.hpp"

namespace attn::io {

/// An attribute's values, row-major. What is neither numbers nor texts, has no values or more than
/// were asked for, is described: "a compound type", "float64, 3000".
struct AttributeValue {
  struct Described {
    std::string text;
    bool is_empty = false;  ///< there are no values
  };
  std::string name;
  Shape shape;  ///< no axes: one value, and not a list of one
  std::variant<std::vector<double>, std::vector<std::int64_t>, std::vector<std::string>, Described>
      value;
};
inline constexpr Index attribute_limit = 64;  ///< about as many as a person would read

/// One group or dataset of a bundle.
struct Item {
  std::string path;  ///< from INPUT's root, without a leading slash: "text/wiki/layer0/Q"
  bool is_group = false;
  std::vector<AttributeValue> attributes;  ///< sorted by name
  // Of a dataset:
  Shape shape;
  DType dtype = DType::other;
  std::string type;  ///< "float32", "a compound type"
  /// Why it cannot be opened or listed: "a.h5:/v cannot be opened: ..."; empty where it can.
  std::string unreadable;
};

/// Every group and dataset below INPUT's root, and every link there that leads to nothing that can
/// be opened, depth first, sorted by name with numbers in the order of their values; a group that
/// several links lead to stands under the first. Attributes of more than `most_values` values are
/// described. Throws Error(input) where the root itself cannot be listed.
std::vector<Item> contents(const InputBundle& bundle, Index most_values = attribute_limit);

/// Throws Error(input) for the first of `items` that is unreadable: what is copied or compared must
/// be all there is.
void require_readable(const std::vector<Item>& items);

/// The attributes of INPUT's root.
std::vector<AttributeValue> root_attributes(const InputBundle& bundle,
                                            Index most_values = attribute_limit);

}  // namespace attn::io
