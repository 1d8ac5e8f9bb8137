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
};

/// Which numbers of a text file are meant.
struct TextPlace {
  std::optional<Index> line;           ///< from 1 on; from the end if negative; of a table: row
  std::optional<std::string> pattern;  ///< a regular expression (ECMAScript)
  std::optional<std::string> column;   ///< of a table: a name in its first line, or a number from 1

  bool is_set() const { return line || pattern || column; }
};

/// Throws Error(input) unless the file is a regular one: a device or FIFO could be read forever.
void require_regular(const std::string& file, const std::string& place);

/// The numbers at an address, after a command ran in `folder` and ended with `status`:
/// FILE.json:/pointer is a number, or numbers in arrays in their order, of a JSON file (RFC 6901;
/// true is 1, false 0), and a part "*" of the pointer stands for each element; "status" is the exit
/// status; anything else is the address of a dataset (io::parse_address), read row-major, where
/// patterns of fnmatch(3) may stand for groups. File names are relative to the folder. Throws
/// Error(input) if there are none, and if one is NaN, which would refute any claim, including those
/// that must fail.
Values values_at(const std::string& place, const std::string& folder, int status);

/// The numbers in a text file of `folder`, one after another. With a column: those of the rows of a
/// table, separated by tabs, by commas or by spaces, as its first line is; `pattern` chooses rows.
/// With a pattern: for each match in a line, its first group, or else the whole. With a line alone:
/// all numbers in it. Throws Error(input) if there are none, and if what is meant is no number.
Values text_values(const TextPlace& place, const std::string& file, const std::string& folder);

/// Throws Error(input) if the pattern is no regular expression.
void require_pattern(const TextPlace& place);

}  // namespace attn::tools
