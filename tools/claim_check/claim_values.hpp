#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tensor/shape.hpp"

namespace attn::tools {

/// Numbers that a command produced.
struct Values {
  std::vector<double> numbers = {};
  std::optional<Shape> shape = {};  ///< set for a dataset
  /// Further files, referred to by the named one, that hold some of the numbers.
  std::vector<std::string> sources = {};
};

/// Throws Error(input) unless the file is regular: a device or FIFO could be read forever.
void require_regular(const std::string& file, const std::string& place);

/// The numbers at an address, after a command ran in `folder` and ended with `status`:
/// FILE.json:/pointer is a number, or numbers in arrays in their order, of a JSON file (RFC 6901;
/// true is 1, false 0), and a part "*" of the pointer stands for each element; "status" is the exit
/// status; anything else is the address of a dataset (io::parse_address), read row-major, where
/// patterns of fnmatch(3) may stand for groups. File names are relative to the folder. Throws
/// Error(input) if there are none, and if one is NaN, which would refute any claim, including those
/// that must fail.
Values values_at(const std::string& place, const std::string& folder, int status);

}  // namespace attn::tools
